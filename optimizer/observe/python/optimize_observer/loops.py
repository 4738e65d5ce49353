"""The length of a training by the for loops of the script around an optimizer step.

A length is known if each of them iterates over a range or a collection that follows from variables: no code of the script is
called. Whether each iteration makes one pass or step is for the caller to verify, by several positions.
"""

import ast
import builtins
import math
import operator
import os
import re
import sys
import sysconfig
import time

import optimize_observer

FREE, INTERVAL = 8, 0.25  # positions that are taken at once, and seconds between later ones: one takes some 100 µs
SOURCE = 2 << 20  # bytes; larger files are not parsed
BEGAN = os.getcwd()  # relative names of files are relative to it, even after the script has changed its directory
OWN = os.path.dirname(os.path.abspath(optimize_observer.__file__)) + os.sep
LIBRARIES = tuple({os.path.realpath(p) + os.sep for k, p in sysconfig.get_paths().items() if "lib" in k})

# Modules that call the functions of a script without a training loop of their own.
CALLERS = ("torch", "accelerate", "functools", "contextlib", "runpy", "multiprocessing", "click", "typer", "hydra", "fire", "absl",
           "lightning.fabric", "lightning_fabric")

BARS = {"tqdm", "track", "trange", "enumerate", "list", "tuple"}  # callables whose first argument is iterated over
FUNCTIONS = (range, int, len, min, max)
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
READERS = {"locals", "vars", "eval", "exec"}  # may keep the snapshot of the variables of a frame
SNAPSHOTS = sys.version_info < (3, 13)  # reading the variables of a function leaves references to them in its frame
OPTIMIZED = 0x1  # code flag of functions
GENERATOR = 0x20 | 0x80 | 0x200  # code flags of generators, coroutines and both

functions = {}  # file -> {(first line, name): its node}
epoch_name = re.compile("_*ep(?!s|isode)(?!.*step)", re.IGNORECASE)  # of the variable of a loop over epochs
library = {}  # file -> whether it belongs to a library


class Length:
    """The length of the training, in passes or steps, by the loops around it. It is known once the positions in the loops agree
    with what was counted between them: one for each iteration by two positions, one for each n-th by three. For passes in a
    single loop the first position, in its first iteration, suffices."""

    def __init__(self):
        self.counted = 0  # steps of an epoch, once they have been counted
        self.check = 1  # the step from which on the next position is taken, where no pass begins before
        self.taken = 0  # number of positions
        self.due = 0.0  # time from which on the next one is taken when a pass begins
        self.forget()

    def forget(self):
        self.loops = self.at = self.slope = self.total = None
        self.known = self.passes = False
        self.depth = 0  # of the loops around passes, without those of a single iteration
        self.inner = 0  # steps in an iteration of the outermost loop, if that is one over epochs

    def take(self, done, batches=None, passes=False, callers=CALLERS):
        """Take the position of the caller, before which done(passes) passes or steps were made: passes if the loop over the batches
        that were requested at batches, a site, is around it, or as given."""
        self.taken += 1
        if self.taken > FREE:
            self.due = time.monotonic() + INTERVAL
        try:
            found, over = around(batches, callers)
            self.find(found, done(passes or over), passes or over)
        except Exception:  # the length is not known, or an expression of the script fails
            self.forget()

    def find(self, around, done, passes):
        """Take a position in loops."""
        index, length = 0, 1
        for _, _, i, n in around:
            index, length = index * n + i, length * n
        loops, slope = (passes, [key for key, _, _, _ in around]), 1.0
        self.depth = sum(n != 1 for _, _, _, n in around) if passes else 0
        if loops != self.loops:
            self.known = passes and self.depth <= 1 and index == 0
        elif (index, done) == self.at:
            return
        else:
            slope = (index - self.at[0]) / (done - self.at[1]) if done > self.at[1] else 0.0
            self.known = slope >= 1 and slope in (1, self.slope)
        self.loops, self.at, self.slope, self.passes = loops, (index, done), slope, passes
        self.total = done + math.ceil((length - index) / max(slope, 1))
        by_epochs = self.total == length and not passes and len(around) > 0 and epoch_name.match(around[0][1])
        self.inner = length // around[0][3] if by_epochs else 0

    def fill(self, t, loader=False):
        """Set the totals of t. Without a loader, a loop over epochs counts them."""
        t.total_epochs = t.loop_steps = t.loops = None
        if not loader and (self.known and self.inner or self.counted):
            self.counted = self.counted or self.inner
            t.epoch = t.step / self.counted
        if not self.known:
            return
        if self.passes:
            t.total_epochs, t.loops = self.total, self.depth
        elif self.counted:
            t.total_epochs = self.total / self.counted
        else:
            t.loop_steps = self.total


class Unknown(Exception):
    """The length of a loop does not follow from variables."""


def of_library(path):
    if path not in library:
        real = os.path.realpath(os.path.join(BEGAN, path))
        library[path] = path.startswith("<") or real.startswith(LIBRARIES) or "/site-packages/" in real or "/dist-packages/" in real
    return library[path]


def site():
    """Return where the script asks for a batch: the code and line of its innermost frame."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(OWN) and not of_library(code.co_filename):
            return code, frame.f_lineno
        frame = frame.f_back
    return None, 0


def around(batches, callers=CALLERS):
    """Return the for loops around the caller, outermost first, as tuples (key, variable, index, length), and whether these are
    the loops around the one over the batches that were requested at batches, a site or None. Raise Unknown for other loops."""
    loops, opaque, passes = [], False, False
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(OWN):
            pass
        elif of_library(code.co_filename):
            name = frame.f_globals.get("__name__") or ""
            opaque = opaque or not any(name == c or name.startswith(c + ".") for c in callers)
        else:
            here = enclosing(frame)
            if batches is not None and code is batches[0] and not passes:
                for k, loop in enumerate(here):
                    if isinstance(loop, ast.For) and loop.lineno <= batches[1] <= loop.iter.end_lineno:
                        loops, here, opaque, passes = [], here[k + 1:], False, True
                        break
            loops += [(loop, frame) for loop in here]
        frame = frame.f_back
    if opaque:
        raise Unknown("a library")
    return [position(loop, frame) for loop, frame in reversed(loops)], passes


def enclosing(frame):
    """Return the loops around the current line of a frame, innermost first; None stands for what may be a loop."""
    code, line = frame.f_code, frame.f_lineno
    node = parsed(code.co_filename).get((code.co_firstlineno if code.co_name != "<module>" else 0, code.co_name))
    if node is None or code.co_flags & GENERATOR:
        return [None]
    loops, inner = [], node
    while inner is not None:
        node = inner
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and node.body[0].lineno <= line <= node.body[-1].end_lineno:
            loops.insert(0, node)
        inner = next((s for s in statements(node) if s.lineno <= line <= s.end_lineno), None)
    if not hasattr(node, "body") and any(isinstance(n, COMPREHENSIONS) for n in ast.walk(node)):
        loops.insert(0, None)
    return loops


def statements(node):
    """Yield the statements in the blocks of a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif hasattr(child, "body") and not isinstance(child, ast.expr):  # of an except or case
            for statement in child.body:
                yield statement


def parsed(path):
    """Return the functions of a source file by first line and name; none if it cannot be parsed."""
    if path not in functions:
        found = functions[path] = {}
        path = os.path.join(BEGAN, path)
        try:
            if os.stat(path).st_size <= SOURCE:
                with open(path, "rb") as f:
                    tree = ast.parse(f.read())
                found[0, "<module>"] = tree
                for node in ast.walk(tree):
                    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        found[min([node.lineno] + [d.lineno for d in node.decorator_list]), node.name] = node
        except (OSError, SyntaxError, ValueError, RecursionError):
            found.clear()
    return functions[path]


def position(loop, frame):
    """Return (key, variable, index, length) of a loop in a frame."""
    code = frame.f_code
    if not isinstance(loop, ast.For) or READERS.intersection(code.co_names):
        raise Unknown("a loop without a length")
    stored = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    if any(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in stored for s in loop.body for n in ast.walk(s)):
        raise Unknown("the variable is set")
    local = frame.f_locals
    try:
        index, length = place(loop, (local, frame.f_globals, vars(builtins)))
    finally:
        if SNAPSHOTS and code.co_flags & OPTIMIZED:
            local.clear()
    return id(loop), getattr(loop.target, "id", ""), index, length


def place(loop, scopes):
    """Return the index of the current iteration of a loop, and the number of iterations."""
    target, values = loop.target, loop.iter
    if isinstance(values, ast.Call) and called(values) == "enumerate" and isinstance(target, ast.Tuple):
        start = value(values.args[1], scopes) if len(values.args) > 1 else 0
        return value(target.elts[0], scopes) - start, len(sequence(values, scopes))
    values, now = sequence(values, scopes), value(target, scopes)
    if isinstance(values, range):
        return values.index(now), len(values)
    at = [k for k, v in enumerate(values) if same(v, now)]
    if len(at) != 1:
        raise Unknown("equal values")
    return at[0], len(values)


def same(a, b):
    """Report whether a and b are one object, equal words or numbers, or tuples of such."""
    if a is b or type(a) is not type(b):
        return a is b
    if type(a) is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) in (str, int, float) and a == b


def called(node):
    """Return the last part of the name that a call calls."""
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


def sequence(node, scopes):
    """Return the values of an iterable expression as a range, list or tuple."""
    if isinstance(node, ast.Call):
        name = called(node)
        if name == "trange":
            return range(*[value(a, scopes) for a in node.args])
        if name in BARS and node.args:
            return sequence(node.args[0], scopes)
        if name in ("items", "keys", "values") and isinstance(node.func, ast.Attribute) and not node.args:
            owner = value(node.func.value, scopes)
            if type(owner) is dict:
                return list(getattr(owner, name)())
        if name == "split" and isinstance(node.func, ast.Attribute):
            folds = value(node.func.value, scopes)
            if type(folds).__module__.startswith("sklearn.model_selection"):
                return range(plain(attribute(folds, "n_splits")))
    values = value(node, scopes)
    if type(values).__module__.startswith("tqdm"):
        values = vars(values).get("iterable")
    if type(values) is dict:
        return list(values)
    if type(values) not in (range, list, tuple):
        raise Unknown(type(values).__name__)
    return values


def value(node, scopes):
    """Return the value of an expression of names, attributes, items, numbers and arithmetic."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for scope in scopes:
            if node.id in scope:
                return scope[node.id]
    elif isinstance(node, ast.Attribute):
        return attribute(value(node.value, scopes), node.attr)
    elif isinstance(node, ast.Tuple):
        return tuple(value(e, scopes) for e in node.elts)
    elif isinstance(node, ast.List):
        return [value(e, scopes) for e in node.elts]
    elif isinstance(node, ast.Subscript):
        owner, key = value(node.value, scopes), value(getattr(node.slice, "value", node.slice) if type(node.slice).__name__ == "Index" else node.slice, scopes)
        if isinstance(owner, dict) and dict.__contains__(owner, key):
            return dict.__getitem__(owner, key)
        if type(owner) in (list, tuple):
            return owner[key]
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](plain(value(node.left, scopes)), plain(value(node.right, scopes)))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = value(node.func, scopes)
        if any(function is f for f in FUNCTIONS):
            return function(*[plain(value(a, scopes)) for a in node.args])
    raise Unknown(type(node).__name__)


def plain(v):
    """Return v if its operations are not those of the script."""
    if type(v) not in (int, float, bool, str, list, tuple, dict, range) and not array(v):
        raise Unknown(type(v).__name__)
    return v


def array(v):
    """Report whether v is an array, a tensor or a table: its length and shape cost nothing."""
    return type(v).__module__ in ("numpy", "torch", "pandas.core.frame", "pandas.core.series")


def attribute(owner, name):
    """Return an attribute without calling the code of its owner."""
    if isinstance(owner, dict) and dict.__contains__(owner, name):
        return dict.__getitem__(owner, name)
    if name == "shape" and array(owner):
        return tuple(owner.shape)
    for scope in (owner,) + (owner.__mro__ if isinstance(owner, type) else type(owner).__mro__):
        try:
            fields = object.__getattribute__(scope, "__dict__")
        except AttributeError:
            continue
        if name in fields:
            found = fields[name]
            return found if scope is owner else plain(found)
    raise Unknown(name)
