"""The length of a training by the for loops of the script around an optimizer step.

A length is known if each of them iterates over a range or a collection that follows from variables: no code of the script is
called. Whether each iteration makes one pass or step is for the caller to verify, by several positions.
"""

import ast
import builtins
import math
import opcode
import operator
import os
import re
import sys
import sysconfig
import time
import types

import optimize_observer

FREE, INTERVAL = 8, 0.25  # positions that are taken at once, and seconds between later ones: one takes some 100 µs
SOURCE = 2 << 20  # bytes; larger files are not parsed
BEGAN = os.getcwd()  # relative names of files are relative to it, even after the script has changed its directory
OWN = os.path.dirname(os.path.abspath(optimize_observer.__file__)) + os.sep
LIBRARIES = tuple({os.path.realpath(p) + os.sep for k, p in sysconfig.get_paths().items() if "lib" in k})

# Modules that call the functions of a script without a training loop of their own.
CALLERS = ("torch", "accelerate", "functools", "contextlib", "runpy", "multiprocessing.process", "multiprocessing.context",
           "multiprocessing.popen_fork", "multiprocessing.spawn", "multiprocessing.forkserver", "click", "typer", "hydra", "fire", "absl",
           "lightning.fabric", "lightning_fabric")
FORK = "multiprocessing.popen_fork"  # the frames that call it are those of the parent process
ENDLESS = 1000000  # iterations of a loop with break or return that is not meant to end by itself

BARS = {"tqdm", "track", "trange", "enumerate", "list", "tuple"}  # callables whose first argument is iterated over
FOLDS = {"KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "TimeSeriesSplit", "ShuffleSplit", "StratifiedShuffleSplit"}
FUNCTIONS = (range, int, len, min, max)
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv}
FOR_ITER = opcode.opmap["FOR_ITER"]
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
MAPS = {"map", "starmap", "filter", "reduce"}  # call a function for each item
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
READERS = {"locals", "vars", "eval", "exec"}  # may keep the snapshot of the variables of a frame
SNAPSHOTS = sys.version_info < (3, 13)  # reading the variables of a function leaves references to them in its frame
OPTIMIZED = 0x1  # code flag of functions
GENERATOR = 0x20 | 0x80 | 0x200  # code flags of generators, coroutines and both

functions = {}  # file -> {(first line, name): (its code, its node)}
paths = {}  # (id of a code, instruction) -> (the code, Path)
epoch_name = re.compile("_*ep(?!s|isode)(?!.*step)", re.IGNORECASE)  # of the variable of a loop over epochs
length_name = re.compile("epochs|rounds?$|steps|iter|estimators")  # of an argument
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
    the loops around the one over the batches that were requested at batches, a site or None. Raise Unknown for other loops,
    and for a training that another one follows."""
    loops, opaque, passes, forked, callee, needed = [], False, False, False, None, set()
    frame = sys._getframe(1)
    while frame is not None:
        code, name = frame.f_code, frame.f_globals.get("__name__") or ""
        if code.co_filename.startswith(OWN):
            pass
        elif any(name == c or name.startswith(c + ".") for c in callers):
            forked = forked or name == FORK
        elif of_library(code.co_filename):
            opaque = True
        else:
            path = path_of(frame)
            here = path.loops
            if callee is None and callers is not CALLERS and path.function is not None:
                needed = trained(path.statement)
            elif callee is not None and needed:
                needed = arguments(path.statement, callee, needed)
            if batches is not None and code is batches[0] and not passes:
                for k, loop in enumerate(here):
                    if loop is not None and isinstance(loop.node, ast.For) and loop.node.lineno <= batches[1] <= loop.node.iter.end_lineno:
                        loops, here, opaque, passes, needed = [], here[k + 1:], False, True, set()
                        break
            for loop in here:
                if loop is None or forked:
                    raise Unknown("several processes" if forked else "what may be a loop")
                if loop.varies(needed):
                    raise Unknown("an inner loop of different lengths")
                needed = needed | used(getattr(loop.node, "iter", None))
                if not passes and loop.left and len(loops) + len(here) > 1 and loop is not path.loops[-1]:
                    raise Unknown("an inner loop that ends early")
            if path.repeated or callee is not None and callee.name in path.calls:
                raise Unknown("another training follows")
            loops += [(loop, frame) for loop in here]
            callee = path.function
        frame = frame.f_back
    if opaque:
        raise Unknown("a library")
    return [position(loop, frame) for loop, frame in reversed(loops)], passes


class Around:
    """A loop of the script, and what its source says about it."""

    def __init__(self, node, function):
        self.node = node
        self.variables = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)} if isinstance(node, ast.For) else set()
        self.assigned = assignments(node.body)
        names = {n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.plain = isinstance(node, ast.For) and not self.variables & names
        self.left = any(leaves(s) for s in node.body)
        self.read = any(isinstance(n, ast.Name) and n.id in READERS or getattr(n, "attr", "") == "f_locals" for n in ast.walk(function))

    def varies(self, names):
        """Report whether names of its body may have another value in the next iteration."""
        names = closure(names, self.assigned)
        return None in names or not names.isdisjoint(self.variables)


class Path:
    """The position of a frame in its function: the statement, the loops around it, innermost first, of which None is what may be
    a loop, and what trains or is called after them."""

    def __init__(self, function=None, statement=None, loops=(None,)):
        self.function, self.statement, self.loops = function, statement, list(loops)
        outermost = loops[-1].node if loops and loops[-1] is not None else statement
        rest = after(function, outermost) if function is not None else None
        self.calls = set()  # names of what is called after the outermost loop, by loops alone if there is one
        for s in rest or []:
            for n in ast.walk(s):
                if isinstance(n, LOOPS) or not loops and isinstance(n, ast.Call):
                    self.calls |= {called(c) for c in ast.walk(n) if isinstance(c, ast.Call)}
        self.repeated = any(steps(c) for s in rest or [] for n in ast.walk(s) if isinstance(n, LOOPS) for c in ast.walk(n))


def path_of(frame):
    code, at = frame.f_code, frame.f_lasti
    key = id(code), at
    if key not in paths:
        paths[key] = code, find_path(code, at, frame.f_lineno)
    return paths[key][1]


def find_path(code, at, line):
    known, function = parsed(code.co_filename).get((code.co_firstlineno if code.co_name != "<module>" else 0, code.co_name), (None, None))
    if function is None or code.co_flags & GENERATOR or code.co_code[at] == FOR_ITER or identity(known) != identity(code):
        return Path()
    loops, node, on = [], function, [function]
    while on:
        node, last = on[0], on
        if isinstance(node, LOOPS) and line <= node.body[-1].end_lineno and (isinstance(node, ast.While) or line >= node.body[0].lineno):
            loops.insert(0, Around(node, function))
        on = [s for s in statements(node) if s.lineno <= line <= s.end_lineno]
    if any(repeats(s) for s in last):
        loops.insert(0, None)
    return Path(function, node, loops)


def statements(node):
    """Yield the statements in the blocks of a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(getattr(child, "body", None), list):  # of an except or case
            for statement in child.body:
                yield statement


def after(node, inner):
    """Return the statements of a function that are executed after inner, one of them; None if it is not in node."""
    for _, block in ast.iter_fields(node):
        for k, child in enumerate(block if isinstance(block, list) else ()):
            found = [] if child is inner else after(child, inner) if isinstance(child, ast.AST) and not isinstance(child, FUNCTION) else None
            if found is not None:
                return found + block[k + 1:] if isinstance(child, ast.stmt) and not any(isinstance(s, ast.Return) for s in found) else found
    return None


def leaves(node, inner=False):
    """Report whether a statement of a loop contains its break, or a return."""
    if isinstance(node, (ast.Break, ast.Return)):
        return isinstance(node, ast.Return) or not inner
    return not isinstance(node, FUNCTION + (ast.ClassDef,)) and any(leaves(s, inner or isinstance(node, LOOPS)) for s in statements(node))


def steps(node):
    """Report whether an expression is part of an optimizer step."""
    owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    name = getattr(owner, "attr", None) or getattr(owner, "id", "")
    return owner is not None and (node.func.attr == "backward" or node.func.attr == "step" and "opt" in name.lower())


def repeats(node):
    """Report whether the expressions of a statement, without those in its blocks, may call a function several times."""
    if isinstance(node, COMPREHENSIONS) or isinstance(node, ast.Call) and called(node) in MAPS:
        return True
    return any(repeats(n) for n in ast.iter_child_nodes(node) if isinstance(n, (ast.expr, ast.keyword, ast.withitem)))


def parsed(path):
    """Return the functions of a source file by first line and name; none if it cannot be parsed."""
    if path not in functions:
        found = functions[path] = {}
        path = os.path.join(BEGAN, path)
        try:
            if os.stat(path).st_size <= SOURCE:
                with open(path, "rb") as f:
                    tree = ast.parse(f.read())
                codes, todo = {}, [compile(tree, path, "exec", 0, True)]
                while todo:
                    code = todo.pop()
                    codes[code.co_firstlineno if code.co_name != "<module>" else 0, code.co_name] = code
                    todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
                found[0, "<module>"] = codes[0, "<module>"], tree
                for node in ast.walk(tree):
                    if isinstance(node, FUNCTION):
                        key = min([node.lineno] + [d.lineno for d in node.decorator_list]), node.name
                        if key in codes:
                            found[key] = codes[key], node
        except (OSError, SyntaxError, ValueError, RecursionError):
            found.clear()
    return functions[path]


def identity(code):
    """Return the parts of a code that differ if its source has been changed since it was loaded."""
    lines = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
    return code.co_code, code.co_names, lines, [c for c in code.co_consts if not isinstance(c, types.CodeType)]


def used(node):
    """Return the names in an expression, and its attributes with a dot. An object is taken to depend on no argument of its class."""
    names, todo = set(), [node] if node is not None else []
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add("." + node.attr)
        if not isinstance(node, ast.Call) or not called(node)[:1].isupper():
            todo += ast.iter_child_nodes(node)
    return names


def assignments(body):
    """Return the expressions assigned to names and attributes in statements: name -> [expression], None for an operation in place."""
    found = {}
    for node in (n for s in body for n in ast.walk(s)):
        for target in getattr(node, "targets", None) or [getattr(node, "target", None)] if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) else ():
            for t in ast.walk(target):
                if isinstance(getattr(t, "ctx", None), ast.Store) and isinstance(t, (ast.Name, ast.Attribute)):
                    found.setdefault(getattr(t, "id", None) or "." + t.attr, []).append(None if isinstance(node, ast.AugAssign) else node.value)
    return found


def closure(names, assigned):
    """Return names and those that they are assigned from; None is one that depends on itself."""
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        for v in assigned.get(name, ()):
            more = {None} if v is None else used(v)
            todo += {None} if name in more else more
    return found


def arguments(statement, callee, needed):
    """Return the names from which needed, names in the function callee, follow in the statement that calls it."""
    assigned = assignments(callee.body)
    names = closure(needed, assigned)
    names.discard(None)
    if isinstance(callee, ast.Module):
        return names
    parameters = [a.arg for a in callee.args.posonlyargs + callee.args.args]
    keywords = [a.arg for a in callee.args.kwonlyargs]
    result = {n for n in names if n not in parameters and n not in keywords and n not in assigned}
    for call in ast.walk(statement):
        if isinstance(call, ast.Call) and called(call) == callee.name:
            values = list(call.args)
            if parameters[:1] in (["self"], ["cls"]):
                values.insert(0, getattr(call.func, "value", None))
            for name, v in list(zip(parameters, values)) + [(k.arg, k.value) for k in call.keywords]:
                if name in names or name is None:
                    result |= used(v)
    return result


def trained(statement):
    """Return the names of what a statement trains by a framework, and those from which its length follows."""
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
    owners = {c.func.value.id for c in calls if isinstance(c.func, ast.Attribute) and isinstance(c.func.value, ast.Name)}
    return owners.union(*[used(k.value) for c in calls for k in c.keywords if k.arg and length_name.search(k.arg)])


def position(loop, frame):
    """Return (key, variable, index, length) of a loop in a frame."""
    node, code = loop.node, frame.f_code
    if not loop.plain or loop.read and code.co_flags & OPTIMIZED:
        raise Unknown("a loop without a length, or whose variable is set")
    local = frame.f_locals
    own = sys.getrefcount(local) <= 3  # otherwise the script keeps it as well
    try:
        index, length = place(node, (local, frame.f_globals, vars(builtins)))
    finally:
        if SNAPSHOTS and code.co_flags & OPTIMIZED and own:
            local.clear()
    if loop.left and length > ENDLESS:
        raise Unknown("a loop that ends early")
    return id(node), getattr(node.target, "id", ""), index, length


def place(loop, scopes):
    """Return the index of the current iteration of a loop, and the number of iterations."""
    target, values = loop.target, loop.iter
    if isinstance(values, ast.Call) and called(values) == "enumerate" and isinstance(target, ast.Tuple):
        start = [k.value for k in values.keywords if k.arg == "start"] or values.args[1:]
        start = value(start[0], scopes) if start else 0
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
            made = node.func.value
            if isinstance(made, ast.Call):  # in place: KFold(n_splits=5).split(x)
                folds, splits = value(made.func, scopes), [k.value for k in made.keywords if k.arg == "n_splits"] or made.args[:1]
                if splits and folds.__module__.startswith("sklearn.model_selection") and folds.__name__ in FOLDS:
                    return range(value(splits[0], scopes))
                raise Unknown("folds")
            folds = value(made, scopes)
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
