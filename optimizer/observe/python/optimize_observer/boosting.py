"""XGBoost and LightGBM: a callback added to train, under every name by which it was imported. CatBoost on a CPU (it rejects
callbacks on a GPU), where a callback costs little: one among the parameters of its internal train. A step is a round.
"""

import inspect
import os
import sys

import optimize_observer

from .core import cpus, number, observer, safely, wrap


def rebind(package, old, new):
    """Replace old by new in every module of the package that refers to it."""
    for name, module in list(sys.modules.items()):
        if module is not None and (name == package or name.startswith(package + ".")):
            for attribute, value in list(vars(module).items()):
                if value is old:
                    setattr(module, attribute, new)


class Rounds:
    """One call of train. Saves by save_model and stops by the callback's result."""

    suffix = ".json"
    own_threads = True  # the thread count is a parameter of the model, independent of the process's pools

    def __init__(self, framework, total):
        self.framework, self.total = framework, total
        self.training = self.model = None
        self.stopping = self.counted = False

    def begin(self):
        self.training = observer.begin(self.framework, self, total_steps=self.total, unit="round")

    def count(self, model, done, losses):
        """Record that done rounds of this call are complete, with the model and its losses. Called before the script's
        callbacks, since one that stops the training early is the last that is called."""
        t = self.training
        if t is None or t is not observer.training:
            return
        self.model, t.step, self.counted = model, done, True
        t.losses.update(losses)

    def after(self, requests=True):
        """Report the round counted last. Called after the script's callbacks, so that what they do is part of it."""
        if self.counted and self.training is observer.training:
            self.counted = False
            observer.advance(requests=requests)

    def save(self, path):
        if not path:
            path = os.path.join(optimize_observer.directory, "optimize-round-%d%s" % (self.training.step, self.suffix))
        self.model.save_model(path)
        return path

    def stop(self):
        self.stopping = True

    def end(self):
        self.after(requests=False)
        t, self.training = self.training, None
        if t is not None and t is observer.training:
            observer.finish()
        self.model = None


def observed_train(original, adapter, callbacks, total_of):
    """Return train with a new adapter's two callbacks added at each call, around those of the script."""
    position = list(inspect.signature(original).parameters).index("callbacks")

    def train(*args, **kwargs):
        own = safely("train", lambda: adapter(total_of(args, kwargs)))
        given = argument(args, kwargs, position, "callbacks", None)
        if own is None or not isinstance(given, (list, tuple, set, type(None))) or observer.busy():
            return original(*args, **kwargs)
        added = safely(own.framework + ".train", callbacks, own)
        if added is None:
            return original(*args, **kwargs)
        first, last = added
        around = [first] + list(given or ()) + [last]
        if len(args) > position:
            args = args[:position] + (around,) + args[position + 1:]
        else:
            kwargs["callbacks"] = around
        safely(own.framework + ".begin", own.begin)
        try:
            return original(*args, **kwargs)
        finally:
            safely(own.framework + ".end", own.end)

    return train


def argument(args, kwargs, position, name, default):
    return kwargs[name] if name in kwargs else args[position] if len(args) > position else default


def install_xgboost(module):
    observer.framework("xgboost")
    base = module.callback.TrainingCallback

    def latest(evals_log):
        out = {}
        for data, metrics in (evals_log or {}).items():
            column = "train_loss" if "train" in data.lower() else "test_loss"
            for values in metrics.values():
                out[column] = number(values[-1] if isinstance(values, list) else values)
        return out

    class OptimizeCount(base):
        def __init__(self, own):
            self.own = own

        def after_iteration(self, model, epoch, evals_log):
            safely("xgboost.count", self.own.count, model, epoch + 1, latest(evals_log))
            return False

    class OptimizeObserver(base):
        def __init__(self, own):
            self.own = own

        def after_iteration(self, model, epoch, evals_log):
            safely("xgboost.round", self.own.after)
            return self.own.stopping

    train = module.train
    new = wrap_train(train, lambda total: Rounds("xgboost", total), lambda own: (OptimizeCount(own), OptimizeObserver(own)),
                     lambda a, k: argument(a, k, 2, "num_boost_round", 10))
    rebind("xgboost", train, new)


def install_lightgbm(module):
    observer.framework("lightgbm")
    stop = module.callback.EarlyStopException

    class Text(Rounds):
        suffix = ".txt"

    def callbacks(own):
        def count(env):
            safely("lightgbm.count", note, own, env)

        def observe(env):
            safely("lightgbm.round", own.after)
            if own.stopping:
                raise stop(env.iteration, env.evaluation_result_list or [])

        count.order, observe.order = -100, 100  # before and after the script's callbacks
        return count, observe

    def note(own, env):
        own.total = env.end_iteration - env.begin_iteration
        if own.training is not None:
            own.training.total_steps = own.total
        losses = {}
        for data, _, value in (tuple(r)[:3] if isinstance(r, (tuple, list)) else (r.dataset_name, r.metric_name, r.metric_value)
                               for r in env.evaluation_result_list or ()):
            losses["train_loss" if "train" in data else "test_loss"] = number(value)
        own.count(env.model, env.iteration - env.begin_iteration + 1, losses)

    def total(args, kwargs):
        return argument(args, kwargs, 2, "num_boost_round", 100)

    train = module.train
    rebind("lightgbm", train, wrap_train(train, lambda n: Text("lightgbm", n), callbacks, total))


def wrap_train(train, adapter, callbacks, total_of):
    import functools

    return functools.wraps(train)(observed_train(train, adapter, callbacks, total_of))


class Iterations:
    """The callback of one training of CatBoost, around those of the script. It has no model that could be saved."""

    own_threads = True

    def __init__(self, callbacks, total):
        self.callbacks = callbacks
        self.training = observer.begin("catboost", self, unit="round", total_steps=total)

    def after_iteration(self, info):
        result = True if self.callbacks is None else self.callbacks.after_iteration(info)
        safely("catboost.round", self.count, info)
        return result

    def count(self, info):
        t = self.training
        if t is None or t is not observer.training:
            return
        t.step = info.iteration
        for data, metrics in (info.metrics or {}).items():
            for values in metrics.values():
                t.losses["train_loss" if data == "learn" else "test_loss"] = number(values[-1] if isinstance(values, list) else values)
        observer.advance()

    def end(self):
        t, self.training = self.training, None
        if t is not None and t is observer.training:
            observer.finish()


COPY, WORK = 0.25e-6, 5e-9  # CPU seconds of CatBoost for a copied number, and for a number of the data at each iteration
SHARE, LITTLE = 0.01, 0.05  # of the training, and seconds that a callback may take


def cheap(train, tests, params):
    """Report whether a callback takes a small share of a training by CatBoost, or little time: at each iteration CatBoost copies the
    values of all metrics so far for it."""
    metrics = {str(params[k]) for k in ("loss_function", "eval_metric") if params.get(k)}.union(params.get("custom_metric") or ())
    iterations, threads = params.get("iterations", 1000), params.get("thread_count") or 0
    copying = COPY * max(1, len(metrics)) * (1 + len(tests or ())) * iterations / 2
    work = WORK * train.num_row() * train.num_col() / (threads if threads > 0 else cpus())
    return copying < SHARE * work or copying * iterations < LITTLE


def install_catboost(module):
    observer.framework("catboost")

    def added(train, tests, params):
        """Return params with the callback; None where CatBoost would reject it, it would be slow, or another framework reports."""
        if observer.busy() or params.get("task_type", "CPU") != "CPU" or not (params.get("callbacks") or cheap(train, tests, params)):
            return None
        return dict(params, callbacks=Iterations(params.get("callbacks"), params.get("iterations", 1000)))

    def make(original):
        def _train(self, train_pool, test_pool, params, *args, **kwargs):
            own = safely("catboost.train", added, train_pool, test_pool, params)
            if own is None:
                return original(self, train_pool, test_pool, params, *args, **kwargs)
            try:
                return original(self, train_pool, test_pool, own, *args, **kwargs)
            finally:
                safely("catboost.end", own["callbacks"].end)

        return _train

    wrap(module.CatBoost, "_train", make)
