"""scikit-learn: partial_fit of estimators with predict. A step is a call."""

import weakref

from . import loops
from .core import observer, safely, wrap


def install(module):
    observer.framework("scikit-learn")
    for cls in list(vars(module).values()):
        if isinstance(cls, type) and cls.__module__ == module.__name__ and "partial_fit" in cls.__dict__ and hasattr(cls, "predict"):
            safely("sklearn." + cls.__name__, watch, cls)


def watch(cls):
    method = cls.__dict__["partial_fit"]
    if hasattr(method, "fn"):  # behind available_if
        wrap(method, "fn", observed)
    else:
        wrap(cls, "partial_fit", observed)


class Calls:
    """Count the calls of the first estimator that is trained by partial_fit, and of the next one once the script has dropped it."""

    def __init__(self):
        self.training = None
        self.estimator = lambda: None  # weak reference
        self.depth = 0
        self.length = loops.Length()

    def fill(self, t, world):
        self.length.fill(t)

    def called(self, estimator, data):
        t = observer.training
        if t is not None and t is not self.training:
            return
        if t is None or self.estimator() is None:
            self.estimator = weakref.ref(estimator)
        if t is None:
            t = self.training = observer.begin("scikit-learn", self, unit="call", samples=0)
        if estimator is not self.estimator():
            return
        rows = getattr(data, "shape", None)
        rows = rows[0] if rows else len(data)
        t.step += 1
        t.samples += rows
        t.batch_size = max(t.batch_size or 0, rows)
        if t.step >= self.length.check:
            self.length.check = 2 * t.step
            self.length.take(lambda _: t.step - 1, callers=loops.CALLERS + ("sklearn",))
        observer.advance()


calls = Calls()


def observed(original):
    def partial_fit(self, *args, **kwargs):
        calls.depth += 1
        try:
            result = original(self, *args, **kwargs)
        finally:
            calls.depth -= 1
        if calls.depth == 0:
            data = args[0] if args else kwargs.get("X")
            safely("sklearn.partial_fit", calls.called, self, data)
        return result

    return partial_fit
