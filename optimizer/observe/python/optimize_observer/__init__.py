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
    "lightning.fabric.fabric": ("lightning", "install_fabric"),
    "lightning_fabric.fabric": ("lightning", "install_fabric"),
    "keras.src.callbacks.callback_list": ("keras", "install_callbacks"),  # Keras 3
    "keras.src.callbacks": ("keras", "install_callbacks"),  # 2.13 to 2.15
    "keras.callbacks": ("keras", "install_callbacks"),  # to 2.12
    "tensorflow.python.keras.callbacks": ("keras", "install_callbacks"),
    "keras.src.trainers.epoch_iterator": ("keras", "install_data"),
    "keras.src.models.model": ("keras", "install_model"),
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
    children.install()
    sys.meta_path.insert(0, Finder())
    for name in HOOKS:
        if name in sys.modules:
            hook(sys.modules[name])


def hook(module):
    """Install the hooks of an imported module. A failure is reported."""
    import importlib

    if module.__name__ in hooked:
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


def watch(spec):
    """Make the loader of spec call hook after the code of this module. The loader keeps its type."""
    run = getattr(spec.loader, "exec_module", None)
    if run is None:
        return spec

    def exec_module(module):
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
