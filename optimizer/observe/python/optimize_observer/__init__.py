"""Observe a training from inside its process.

Importing this package imports a few standard modules. A finder on sys.meta_path installs the hooks of a framework after
the script has imported it; this package never imports a framework.
"""

import sys

directory = ""  # the directory of this process's reports
home = ""  # the directory of sitecustomize.py
settings = {}  # OPTIMIZE_OBSERVE_* of this process
hooked = set()  # names of the modules whose hooks are installed, which also survive a reload

# Module whose import installs hooks -> (module of this package, function in it).
HOOKS = {
    "torch": ("pytorch", "install"),
    "transformers.trainer": ("huggingface", "install_trainer"),
    "accelerate.accelerator": ("huggingface", "install_accelerate"),
    "lightning.pytorch.trainer.trainer": ("lightning", "install"),
    "pytorch_lightning.trainer.trainer": ("lightning", "install"),
    "lightning.pytorch.tuner.lr_finder": ("lightning", "install_tuner"),
    "lightning.pytorch.tuner.batch_size_scaling": ("lightning", "install_tuner"),
    "pytorch_lightning.tuner.lr_finder": ("lightning", "install_tuner"),
    "pytorch_lightning.tuner.batch_size_scaling": ("lightning", "install_tuner"),
    "lightning.fabric.fabric": ("lightning", "install_fabric"),
    "lightning_fabric.fabric": ("lightning", "install_fabric"),
    "keras.src.callbacks.callback_list": ("keras", "install_callbacks"),  # Keras 3
    "keras.src.callbacks": ("keras", "install_callbacks"),  # 2.13 to 2.15
    "keras.callbacks": ("keras", "install_callbacks"),  # to 2.12
    "tensorflow.python.keras.callbacks": ("keras", "install_callbacks"),
    "keras.src.callbacks.backup_and_restore": ("keras", "install_backup"),
    "keras.src.trainers.epoch_iterator": ("keras", "install_data"),
    "keras.src.models.model": ("keras", "install_model"),
    "keras.src.optimizers.base_optimizer": ("keras", "install_optimizer"),
    "ultralytics.engine.trainer": ("ultralytics", "install"),
    "fastai.learner": ("fastai", "install"),
    "xgboost": ("boosting", "install_xgboost"),
    "lightgbm": ("boosting", "install_lightgbm"),
    "catboost.core": ("boosting", "install_catboost"),
    "sklearn.linear_model._stochastic_gradient": ("sklearn", "install"),
    "sklearn.linear_model._passive_aggressive": ("sklearn", "install"),
    "sklearn.naive_bayes": ("sklearn", "install"),
    "sklearn.neural_network._multilayer_perceptron": ("sklearn", "install"),
    "sklearn.cluster._kmeans": ("sklearn", "install"),
    "sklearn.cluster._birch": ("sklearn", "install"),
    "stable_baselines3.common.base_class": ("sb3", "install"),
}


def start(here):
    """Install the finder and the hooks for Python children. Called once, by sitecustomize."""
    global directory, home
    import os

    from . import children

    home = here
    for name in [n for n in os.environ if n.startswith("OPTIMIZE_OBSERVE")]:
        settings[name] = os.environ.pop(name)
    directory = settings["OPTIMIZE_OBSERVE_DIR"]
    node = settings.get("OPTIMIZE_OBSERVE_NODE", "0")
    if node != "0":  # process ids are unique on one machine only; the agent reads the reports of the first
        directory = os.path.join(directory, "node-" + node)
        try:
            os.makedirs(directory, 0o700, exist_ok=True)
        except OSError:
            pass  # this process reports nothing
    if settings.get("OPTIMIZE_OBSERVE_LINES"):
        write_lines()
    children.install()
    sys.meta_path.insert(0, Finder())
    for name in HOOKS:
        if name in sys.modules:
            hook(sys.modules[name])


def write_lines():
    """Write whole lines, as to a terminal. With PYTHONUNBUFFERED, which the agent has set, the parts of a line are written one by
    one, so that those of several processes mix."""
    import io

    words = getattr(sys, "orig_argv", None)
    if words is None:  # before 3.10
        with open("/proc/self/cmdline") as f:
            words = f.read().split("\0")[:-1]
    before = words[1:len(words) - len(sys.argv)] if hasattr(sys, "argv") else ["-u"]
    if any(word[:1] == "-" and next((c for c in word[1:] if c in "-ucmWX"), "") == "u" for word in before):
        return  # the command line asks for it
    for number, name in ((1, "stdout"), (2, "stderr")):
        old = getattr(sys, name)
        if old is not getattr(sys, "__%s__" % name) or not getattr(old, "write_through", False) or old.fileno() != number:
            continue
        binary = open(number, "wb", closefd=False)
        binary.raw.name = "<%s>" % name
        new = io.TextIOWrapper(binary, old.encoding, old.errors, newline="\n", line_buffering=True)
        new.mode = "w"
        setattr(sys, name, new)
        setattr(sys, "__%s__" % name, new)


def hook(module):
    """Install the hooks of an imported module. A failure is reported."""
    import importlib

    if module.__name__ in hooked or module.__name__ not in HOOKS:
        return
    hooked.add(module.__name__)
    where, function = HOOKS[module.__name__]
    try:
        adapter = importlib.import_module("optimize_observer." + where)
        getattr(adapter, function)(module)
    except Exception as e:
        from .core import observer

        observer.failed(module.__name__, e)


class Finder:
    """Find a watched module by the other finders and hook it after its code has run."""

    def __init__(self):
        self.looking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in HOOKS or name in self.looking:
            return None
        self.looking.add(name)
        try:
            for finder in list(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find else None
                if spec is not None:
                    return watch(spec)
        finally:
            self.looking.discard(name)
        return None


def wrap(owner, name, make):
    """Replace owner.name by make(original), with the original's name, documentation and signature; return the original."""
    import functools

    original = getattr(owner, name)
    replacement = functools.wraps(original)(make(original))
    if isinstance(owner, type(sys)):
        replacement.__module__ = owner.__name__  # pickle finds it there
    setattr(owner, name, replacement)
    return original


def watch(spec):
    """Make the loader of spec call hook after the code of this module. The loader keeps its type."""
    run = getattr(spec.loader, "exec_module", None)
    if run is None:
        return spec

    def exec_module(module):
        if module.__name__ != spec.name:  # of a loader for several modules, as that of a zip file
            return run(module)
        try:
            del spec.loader.exec_module
        except AttributeError:
            pass
        run(module)
        hook(module)

    try:
        spec.loader.exec_module = exec_module
    except AttributeError:
        pass  # the loader accepts no attributes: its module is not observed
    return spec
