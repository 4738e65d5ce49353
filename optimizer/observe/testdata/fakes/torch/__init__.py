"""Stands in for PyTorch in tests: the parts that the observer hooks, with the same protocol."""
import builtins
import contextlib
import types

__version__ = "9.9"
_threads = [4]


def get_num_threads():
    return _threads[0]


def set_num_threads(n):
    _threads[0] = n


_gradients = [True]


def is_grad_enabled():
    return _gradients[0]


@contextlib.contextmanager
def no_grad():
    before, _gradients[0] = _gradients[0], False
    try:
        yield
    finally:
        _gradients[0] = before


class Generator:
    state = 0

    def get_state(self):
        return self.state

    def set_state(self, state):
        self.state = state


default_generator = Generator()
compiler = types.SimpleNamespace(is_compiling=lambda: False)


class Tensor:
    pass


class Module:
    pass


nn = types.SimpleNamespace(Module=Module)


def save(obj, f, *args):
    with builtins.open(f, "w") as out:
        out.write("state")


from torch import optim  # noqa: E402
from torch.utils import data  # noqa: E402
