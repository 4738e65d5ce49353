"""The length of a training by the for loops of the script around an optimizer step.

A length is known if each of them iterates over a range or a collection that follows from variables: no code of the script is
called. Whether each iteration makes one pass or step is verified by several positions. What the source says about the loops is
found by source.py.
"""

import ast
import builtins
import gc
import itertools
import math
import operator
import re
import sys
import time

from . import source
from .source import BARS, OWN, called, of_library

SKIPPED = 1.01  # more iterations for each step than before, some of which a gradient scaler has skipped, leave a known length as it is
FREE, INTERVAL = 8, 0.25  # positions that are taken at once, and seconds between later ones: one takes some 100 µs

# Modules that call the functions of a script without a training loop of their own.
CALLERS = ("torch", "accelerate", "functools", "contextlib", "runpy", "multiprocessing.process", "multiprocessing.context",
           "multiprocessing.popen_fork", "multiprocessing.spawn", "multiprocessing.forkserver", "click", "typer", "hydra", "fire", "absl",
           "lightning.fabric", "lightning_fabric")
FORK = "multiprocessing.popen_fork"  # the frames that call it are those of the parent process
ENDLESS = 1000000  # iterations of a loop with break or return that is not meant to end by itself

FOLDS = {"KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "TimeSeriesSplit", "ShuffleSplit", "StratifiedShuffleSplit"}
FUNCTIONS = (range, int, len, min, max)
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv}
SNAPSHOTS = sys.version_info < (3, 13)  # reading the variables of a function leaves references to them in its frame
COMPARISONS = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le,
               ast.Is: operator.is_, ast.IsNot: operator.is_not}
OPTIMIZED = 0x1  # code flag of functions

epoch_name = re.compile("_*ep(?!s|isode)(?!.*step)", re.IGNORECASE)  # of the variable of a loop over epochs


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
        self.until = None  # the step after which a counter of the script ends the passes; False once positions have disagreed
        self.last = False  # it ends the loops around them as well
        self.known = self.passes = self.within = False  # within loops around passes
        self.early = False  # a loop around steps may end early: their total is an upper bound
        self.several = False  # an unknown number of trainings
        self.depth = 0  # of the loops around passes, without those of a single iteration
        self.inner = 0  # steps in an iteration of the outermost loop, if that is one over epochs

    def take(self, done, batches=None, passes=False, callers=CALLERS, step=0):
        """Take the position of the caller, before which done(passes) passes or steps were made: passes if the loop over the batches
        that were requested at batches, a site, is around it, or as given. The present step is the given one, if steps are counted."""
        self.taken += 1
        self.several = False
        if self.taken > FREE:
            self.due = time.monotonic() + INTERVAL
        try:
            found, over, rest, self.early = around(batches, callers)
            self.find(found, done(passes or over), passes or over)
            left, self.last = rest or (None, False)
            if self.until is None or step + (left or 0) != self.until:
                self.until = step + left if self.until is None and left is not None else False
        except Exception as e:  # the length is not known, or an expression of the script fails
            self.forget()
            self.several = isinstance(e, Several)

    def find(self, around, done, passes):
        """Take a position in loops."""
        index, length = 0, 1
        for _, _, i, n in around:
            index, length = index * n + i, length * n
        loops, slope = (passes, [key for key, _, _, _ in around]), 1.0
        self.depth, self.within = sum(n != 1 for _, _, _, n in around) if passes else 0, passes and len(around) > 0
        if loops != self.loops:
            self.known = passes and self.depth <= 1 and index == 0
        elif (index, done) == self.at:
            return
        else:
            slope = (index - self.at[0]) / (done - self.at[1]) if done > self.at[1] else 0.0
            if self.known and self.slope <= slope <= SKIPPED * self.slope:
                slope = self.slope
            self.known = slope >= 1 and slope in (1, self.slope)
        self.loops, self.at, self.slope, self.passes = loops, (index, done), slope, passes
        self.total = done + math.ceil((length - index) / max(slope, 1))
        by_epochs = self.total == length and not passes and len(around) > 0 and epoch_name.match(around[0][1])
        self.inner = length // around[0][3] if by_epochs else 0

    def counts(self, loader):
        """Report whether a loop over epochs counts them: without passes over a loader, or where it does not iterate over one."""
        if self.known and self.inner and not self.counted:
            self.counted = self.inner
        return self.counted and not (loader and (self.passes or self.loops is None))

    def fill(self, t, loader=None):
        """Set the totals of t, and its epoch where the loops count them."""
        t.total_epochs = t.loop_steps = t.loops = t.ends_early = None
        if self.counts(loader):
            t.epoch = t.step / self.counted
        if not self.known:
            return
        if self.passes:
            t.total_epochs, t.loops = self.total, self.depth
        elif self.counted:
            t.total_epochs = self.total / self.counted
        else:
            t.loop_steps, t.ends_early = self.total, self.early or None


class Unknown(Exception):
    """The length of a loop does not follow from variables."""


class Several(Unknown):
    """There is more than one training, or a loop around it whose length does not follow from variables."""


def site(use):
    """Return where the script asks for the first batch of a pass: the code and line of its innermost frame, after how many batches its
    for loop ends there: 0 if that is unknown, None without one, and whether that loop replays them (itertools.cycle)."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(OWN) and not of_library(code.co_filename):
            loop, most, again = None, None, False
            try:
                loop = source.loop_at(code, frame.f_lineno)
                if loop is not None and not (loop.read and code.co_flags & OPTIMIZED):
                    most = within(frame, limit, loop)
                    again = within(frame, lambda node, scopes: replays(node, scopes, use), loop.node)
            except Exception:  # it does not follow from variables, or before Python 3.8
                pass
            return code, frame.f_lineno, loop and (most or 0), again
        frame = frame.f_back
    return None, 0, None, False


def limit(loop, scopes):
    """Return the number of batches that a loop over batches requests at most: by islice, by what zip combines them with, and by a
    comparison of its index before a break; None if it has no known limit."""
    values, numbered = over(loop.node.iter)
    found = []
    if isinstance(values, ast.Call) and called(values) == "islice" and len(values.args) == 2:
        found.append(known(value, values.args[1], scopes))
    elif isinstance(values, ast.Call) and called(values) == "zip":
        found += [len(known(sequence, a, scopes) or ()) for a in values.args]
    first = known(start, numbered, scopes) if numbered is not None else None
    at = getattr(loop.node.target, "elts", [None])[0]
    for left, test, others, outside in stops(loop):
        index, ahead = test.left, 0
        if isinstance(index, ast.BinOp) and isinstance(index.op, ast.Add) and isinstance(index.right, ast.Constant):
            index, ahead = index.left, index.right.value
        if isinstance(left, ast.Break) and getattr(index, "id", None) == getattr(at, "id", "") and state(loop, others + outside, scopes):
            last = known(value, test.comparators[0], scopes)
            if type(first) is type(last) is type(ahead) is int:
                found.append(last - first - ahead + (2 if isinstance(test.ops[0], ast.Gt) else 1))
    return min((n for n in found if type(n) is int and n > 0), default=None)


def over(node):
    """Return what a loop over an expression iterates over, below bars and the like, and the call of enumerate, None without one."""
    numbered = None
    while isinstance(node, ast.Call) and called(node) in BARS and node.args:
        if called(node) == "enumerate":
            numbered = node
        node = node.args[0]
    return node, numbered


def start(numbered, scopes):
    """Return the first index of a call of enumerate."""
    given = [k.value for k in numbered.keywords if k.arg == "start"] or numbered.args[1:]
    return value(given[0], scopes) if given else 0


def stops(loop):
    """Yield what may compare a count with a limit at which a loop is left: the break or return, the comparison, the other
    conditions of that statement, and those of the statements around it."""
    for left, tests in loop.left:
        parts = source.operands(tests[-1:])
        for part in parts:
            if isinstance(part, ast.Compare) and type(part.ops[0]) in (ast.Eq, ast.GtE, ast.Gt) and len(part.ops) == 1:
                yield left, part, [p for p in parts if p is not part], source.operands(tests[:-1])


def state(loop, conditions, scopes):
    """Return whether conditions hold throughout a loop, all of them; None if that is unknown, as where it assigns their variables."""
    found = [known(holds, c, scopes) if source.used(c).isdisjoint(loop.variables.union(loop.assigned)) else None for c in conditions]
    return False if False in found else None if None in found else True


def holds(node, scopes):
    """Report whether a condition holds: a value, a comparison of two, or the negation of a condition."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not holds(node.operand, scopes)
    if not isinstance(node, ast.Compare):
        found = [value(node, scopes)]
    elif len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        found = [value(node.left, scopes), value(node.comparators[0], scopes)]
    else:
        raise Unknown(type(node).__name__)
    if not all(v is None or type(v) in (int, float, bool, str) for v in found):
        raise Unknown("a condition")
    return bool(found[0]) if len(found) == 1 else COMPARISONS[type(node.ops[0])](*found)


def replays(node, scopes, use):
    """Report whether a for loop requests the batches of a pass by itertools.cycle, and once more after its end."""
    values = over(node.iter)[0]
    parts = [values]
    if isinstance(values, ast.Call) and called(values) == "zip":
        parts = [a for a in values.args if known(sequence, a, scopes) is None]
    for part in (over(p)[0] for p in parts):
        if not isinstance(part, ast.Call):
            if cycles(known(value, part, scopes), use):
                return True
        elif called(part) == "cycle" and part.args:
            if len(parts) == 1:
                return True
            loader = known(value, over(part.args[0])[0], scopes)
            if loader is not None and any(use.passes.loader() is v for v in (loader, known(attribute, loader, "base_dataloader")) if v is not None):
                return True
    return False


def cycles(iterator, use):
    """Report whether an iterator of the standard library repeats a pass."""
    if type(iterator) is zip:
        return any(cycles(i, use) for t in gc.get_referents(iterator) if type(t) is tuple for i in t)
    return type(iterator) is itertools.cycle and any(getattr(i, "__dict__", {}).get("_optimize_use") is use for i in gc.get_referents(iterator))


def known(function, *args):
    """Return the result of a function; None if that does not follow from variables, or an expression of the script fails."""
    try:
        return function(*args)
    except Exception:
        return None


def around(batches, callers=CALLERS):
    """Return the for loops around the caller, outermost first, as tuples (key, variable, index, length), whether these are
    the loops around the one over the batches that were requested at batches, a site or None, the result of steps_left for that, and
    whether one of the loops around a step may end early.
    Raise Several for other loops, and for a training that another one follows, and Unknown where there may be such."""
    loops, opaque, passes, forked, callee, needed, rest, inner = [], False, False, False, None, set(), None, 0
    by_framework = callers is not CALLERS
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
            path = source.path_of(frame)
            here = path.loops
            if by_framework:
                here = [loop for loop in here if loop is None or not loop.once]
            if callee is None and by_framework and path.function is not None:
                needed = source.trained(path.statement)
            elif callee is not None and needed:
                needed = source.arguments(path.statement, callee, needed)
            if batches is not None and code is batches[0] and not passes:
                for k, loop in enumerate(here):
                    if loop is not None and isinstance(loop.node, ast.For) and loop.node.lineno <= batches[1] <= loop.node.iter.end_lineno:
                        loops, here, opaque, passes, needed = [], here[k + 1:], False, True, set()
                        rest, inner = steps_left(loop, frame, here), len(here)
                        break
            for loop in here:
                if forked or path.function is None and not code.co_name.endswith("comp>"):
                    raise Unknown("several processes" if forked else "what may be a loop")
                if loop is None or loop.varies(needed):
                    raise Several("a comprehension, or an inner loop of different lengths")
                needed = needed | source.used(getattr(loop.node, "iter", None))
                if not passes and len(loops) + len(here) > 1 and loop is not path.loops[-1] and ends_early(loop, frame):
                    raise Several("an inner loop that ends early")
            if path.repeated or by_framework and path.made_again(callee.name if callee is not None else source.TRAINING):
                raise Several("another training follows")
            if callee is not None and callee.name in path.calls:
                raise Unknown("another training may follow")
            loops += [(loop, frame) for loop in here]
            callee = path.function
        frame = frame.f_back
    if opaque:
        raise Unknown("a library")
    if rest is not None and len(loops) > inner:  # some are in other functions, which continue
        rest = rest[0], False
    try:
        found = [position(loop, frame) for loop, frame in reversed(loops)]
        return found, passes, rest, not passes and any(ends_early(loop, frame) for loop, frame in loops)
    except Exception as e:
        raise Several("a loop of unknown length") from e


def steps_left(loop, frame, outer):
    """Return the number of steps after the present one until a counter, increased by one for each, reaches a limit at which the script
    leaves a loop over batches (--max_train_steps), and whether it leaves the outer ones as well, by a return or by the same test;
    None without one."""
    if loop.read and frame.f_code.co_flags & OPTIMIZED:
        return None
    for left, test, others, outside in stops(loop):
        counter = source.used(test.left)
        sums = [n for n in ast.walk(loop.node) if isinstance(n, ast.AugAssign) and source.used(n.target) == counter]
        if len(sums) != 1 or not isinstance(sums[0].op, ast.Add) or getattr(sums[0].value, "value", None) != 1:
            continue
        if not within(frame, lambda _, scopes: state(loop, others, scopes) and state(loop, outside, scopes) is not False, None):
            continue  # of the conditions outside, some hold at each step: that of accumulation
        counted, most = (known(within, frame, value, node) for node in (test.left, test.comparators[0]))
        if type(counted) is type(most) is int:
            made = {ast.dump(t) for t in [test] + others + outside}
            return (most - counted - (sums[0].lineno > frame.f_lineno) + isinstance(test.ops[0], ast.Gt),
                    isinstance(left, ast.Return) or all(o is not None and ends_at(o, made) for o in outer))
    return None


def ends_at(loop, made):
    """Report whether a loop is left where some conditions hold, dumped, or where part of them do."""
    return any(tests and {ast.dump(t) for t in source.operands(tests)} <= made for _, tests in loop.left)


def position(loop, frame):
    """Return (key, variable, index, length) of a loop in a frame."""
    node, code = loop.node, frame.f_code
    if not loop.plain or loop.read and code.co_flags & OPTIMIZED:
        raise Unknown("a loop without a length, or whose variable is set")
    index, length = within(frame, place, node)
    if length > ENDLESS and ends_early(loop, frame):
        raise Unknown("a loop that ends early")
    return id(node), getattr(node.target, "id", ""), index, length


def ends_early(loop, frame):
    """Report whether a loop in a frame may end early: each exit of another one is at a limit that has no value."""
    if loop.exits and loop.read and frame.f_code.co_flags & OPTIMIZED:
        return True
    return not all(any(within(frame, unset, limit) for limit in limits) for limits in loop.exits)


def unset(node, scopes):
    """Report whether a variable is None, False or 0."""
    try:
        found = value(node, scopes)
    except Unknown:
        return False
    return found is None or type(found) in (bool, int) and not found


def within(frame, function, node):
    """Return function(node, scopes) with the scopes of a frame, without references to its variables that remain in it."""
    local = frame.f_locals
    own = sys.getrefcount(local) <= 3  # otherwise the script keeps it as well
    try:
        return function(node, (local, frame.f_globals, vars(builtins)))
    finally:
        if SNAPSHOTS and frame.f_code.co_flags & OPTIMIZED and own:
            local.clear()


def place(loop, scopes):
    """Return the index of the current iteration of a loop, and the number of iterations."""
    target, values = loop.target, loop.iter
    if isinstance(values, ast.Call) and called(values) == "enumerate" and isinstance(target, ast.Tuple):
        return value(target.elts[0], scopes) - start(values, scopes), len(sequence(values, scopes))
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
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -plain(value(node.operand, scopes))
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
