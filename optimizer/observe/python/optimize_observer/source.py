"""What the source of a script says about the position of a frame: the loops around it, what their lengths depend on, and what follows."""

import ast
import opcode
import os
import re
import sys
import sysconfig
import types
import warnings

import optimize_observer

SOURCE = 2 << 20  # bytes; larger files are not parsed
BEGAN = os.getcwd()  # relative names of files are relative to it, even after the script has changed its directory
OWN = "<optimize_observer"  # prefix of the file names of the observer, if it is part of optimize_hook.py
if hasattr(optimize_observer, "__file__"):
    OWN = os.path.dirname(os.path.abspath(optimize_observer.__file__)) + os.sep
LIBRARIES = tuple({os.path.realpath(p) + os.sep for k, p in sysconfig.get_paths().items() if "lib" in k})

FOR_ITER = opcode.opmap["FOR_ITER"]
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
MAPS = {"map", "starmap", "filter", "reduce"}  # call a function for each item
BRANCHES = FUNCTION + (ast.If, ast.IfExp, ast.ExceptHandler, ast.ClassDef, ast.Lambda)  # what may not be executed
BARS = {"tqdm", "track", "trange", "enumerate", "list", "tuple"}  # callables whose first argument is iterated over
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)  # without a frame of their own from Python 3.12 on
READERS = {"locals", "eval", "exec"}  # may keep the snapshot of the variables of a frame, as may vars()
GENERATOR = 0x20 | 0x80 | 0x200  # code flags of generators, coroutines and both

functions = {}  # file -> {(first line, name): (its code, its node)}
paths = {}  # (id of a code, instruction) -> (the code, Path); (code, line) -> the Around there
TRAINING = "fit|fit_one_cycle|fine_tune|train|learn|cv"  # calls of frameworks
length_name = re.compile("epochs|rounds?$|steps|iter|estimators")  # of an argument
library = {}  # file -> whether it belongs to a library


def of_library(path):
    if path not in library:
        real = os.path.realpath(os.path.join(BEGAN, path))
        library[path] = path.startswith("<") or real.startswith(LIBRARIES) or "/site-packages/" in real or "/dist-packages/" in real
    return library[path]


class Around:
    """A loop of the script, and what its source says about it."""

    def __init__(self, node, function):
        self.node = node
        self.variables = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)} if isinstance(node, ast.For) else set()
        self.assigned = assignments(node.body)
        names = {n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.plain = isinstance(node, ast.For) and not self.variables & names
        self.left = [e for s in node.body for e in exits(s)]
        self.exits = [self.limits(tests) for _, tests in self.left]
        self.once = False  # it is left after the statement in each case
        self.read = any(reads(n) for n in ast.walk(function))

    def limits(self, tests):
        """Return the variables without a value of which tests do not hold together: limit in "limit and i >= limit"."""
        found, parts = [], operands(tests)
        for test in parts:
            limit = test
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and getattr(test.comparators[0], "value", 0) is None:
                limit = test.left
            others = [ast.dump(n) for other in parts if other is not test for n in ast.walk(other)]
            if isinstance(limit, (ast.Name, ast.Attribute)) and ast.dump(limit) in others and used(limit).isdisjoint(self.assigned):
                found.append(limit)
        return found

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
        self.rest = rest = after(function, outermost) or [] if function is not None else []
        self.calls = set()  # names of what is called after the outermost loop, by loops alone if there is one
        for s in rest:
            for n in ast.walk(s):
                if isinstance(n, LOOPS) or not loops and isinstance(n, ast.Call):
                    self.calls |= {called(c) for c in ast.walk(n) if isinstance(c, ast.Call)}
        self.repeated = any(steps(c) for s in rest for n in ast.walk(s) if isinstance(n, LOOPS) for c in ast.walk(n))

    def made_again(self, names):
        """Report whether the call of the statement to one of names, a pattern, follows once more in each case."""
        made = {ast.dump(n.func) for n in ast.walk(self.statement) if isinstance(n, ast.Call) and re.fullmatch(names, called(n))}
        return any(isinstance(n, ast.Call) and ast.dump(n.func) in made for n in certain(self.rest))


def path_of(frame):
    code, at = frame.f_code, frame.f_lasti
    key = id(code), at
    if key not in paths:
        paths[key] = code, find_path(code, at, frame.f_lineno)
    return paths[key][1]


def function_of(code):
    """Return the node of a function, None if its source is not known or has been changed."""
    known, function = parsed(code.co_filename).get((code.co_firstlineno if code.co_name != "<module>" else 0, code.co_name), (None, None))
    return None if function is None or identity(known) != identity(code) else function


def loop_at(code, line):
    """Return the for loop of a function that requests its items at a line, None for several or none."""
    key = code, line
    if key not in paths:
        function = None if code.co_flags & GENERATOR else function_of(code)
        found = [n for n in ast.walk(function) if isinstance(n, ast.For) and n.lineno <= line <= n.iter.end_lineno] if function else []
        paths[key] = Around(found[0], function) if len(found) == 1 else None
    return paths[key]


def find_path(code, at, line):
    function = function_of(code)
    if function is None or code.co_flags & GENERATOR or code.co_code[at] == FOR_ITER:
        return Path()
    loops, node, on = [], function, [function]
    while on:
        node, last = on[0], on
        if isinstance(node, LOOPS) and line <= node.body[-1].end_lineno and (isinstance(node, ast.While) or line >= node.body[0].lineno):
            loops.insert(0, Around(node, function))
        on = [s for s in statements(node) if s.lineno <= line <= s.end_lineno]
    inner, returns = node, isinstance(node, ast.Return)
    for loop in loops:
        rest = after(loop.node, inner) or []
        returns = returns or any(isinstance(s, ast.Return) for s in rest)
        loop.once = returns or any(isinstance(s, ast.Break) for s in rest)
        inner = loop.node
    inlined = [n for s in last for n in ast.walk(s) if isinstance(n, COMPREHENSIONS)] if sys.version_info >= (3, 12) else []
    if any(repeats(s) for s in last) or any(encloses(n, list(code.co_positions())[at // 2]) for n in inlined):
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
                if isinstance(child, ast.stmt) and not any(isinstance(s, ast.Return) for s in found):
                    found = found + block[k + 1:] + (node.orelse if isinstance(node, ast.Try) and block is node.body else [])
                return found
    return None


def certain(nodes):
    """Yield the nodes below nodes that are executed in each case."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if not isinstance(node, BRANCHES):
            yield node
            todo += ast.iter_child_nodes(node)


def exits(node, inner=False, tests=()):
    """Yield each break of a loop, and each return, in one of its statements, with the tests before it."""
    if isinstance(node, (ast.Break, ast.Return)):
        if isinstance(node, ast.Return) or not inner:
            yield node, tests
    elif not isinstance(node, FUNCTION + (ast.ClassDef,)):
        for s in statements(node):
            held = tests
            if isinstance(node, ast.If):
                held += (node.test if any(s is b for b in node.body) else ast.UnaryOp(ast.Not(), node.test),)
            yield from exits(s, inner or isinstance(node, LOOPS), held)


def operands(tests):
    """Return the conditions of which all hold if tests do."""
    return [v for t in tests for v in (t.values if isinstance(t, ast.BoolOp) and isinstance(t.op, ast.And) else [t])]


def reads(node):
    """Report whether an expression may keep the snapshot of the variables of a frame."""
    if isinstance(node, ast.Call) and called(node) == "vars":
        return not node.args
    return isinstance(node, ast.Name) and node.id in READERS or getattr(node, "attr", "") == "f_locals"


def steps(node):
    """Report whether an expression is part of an optimizer step."""
    owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    name = getattr(owner, "attr", None) or getattr(owner, "id", "")
    return owner is not None and (node.func.attr == "backward" or node.func.attr == "step" and "opt" in name.lower())


def encloses(node, position):
    """Report whether an instruction at a position (first and last line, first and last column) may be part of an expression."""
    first, last, begin, end = position
    if None in position:
        return True
    return (node.lineno, node.col_offset) <= (first, begin) and (last, end) <= (node.end_lineno, node.end_col_offset)


def repeats(node):
    """Report whether the expressions of a statement, without those in its blocks, call a function for each item."""
    if isinstance(node, ast.Call) and called(node) in MAPS:
        return True
    return any(repeats(n) for n in ast.iter_child_nodes(node) if isinstance(n, (ast.expr, ast.keyword, ast.withitem)))


def unseen(*args, **kwargs):
    """Ignore a warning that the interpreter has shown when it loaded the source."""


def parsed(path):
    """Return the functions of a source file by first line and name; none if it cannot be parsed."""
    if path not in functions:
        found = functions[path] = {}
        path = os.path.join(BEGAN, path)
        try:
            if os.stat(path).st_size <= SOURCE:
                with open(path, "rb") as f:
                    text = f.read()
                shown, warnings.showwarning = warnings.showwarning, unseen  # a change of the filters repeats those of the script
                try:
                    tree = ast.parse(text)
                    codes, todo = {}, [compile(tree, path, "exec", 0, True)]
                finally:
                    warnings.showwarning = shown
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
        if isinstance(node, ast.Call) and called(node) in BARS:
            todo += node.args  # a description is no part of the length
        elif not isinstance(node, ast.Call) or not called(node)[:1].isupper():
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


def called(node):
    """Return the last part of the name that a call calls."""
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")
