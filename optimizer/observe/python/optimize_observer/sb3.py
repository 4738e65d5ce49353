"""Stable-Baselines3: a callback added to learn. A step is a timestep of the environments."""

import importlib
import math
import os

import optimize_observer

from .core import observer, safely, timed_save, wrap


def install(module):
    observer.framework("stable-baselines3")
    callbacks = importlib.import_module("stable_baselines3.common.callbacks")
    callback = make_callback(callbacks.BaseCallback)

    def added(given):
        own = callback()
        if given is None:
            return own
        if isinstance(given, list):
            return list(given) + [own]
        if not isinstance(given, callbacks.BaseCallback):
            given = callbacks.ConvertCallback(given)
        return callbacks.CallbackList([given, own])

    def make(original):
        def _init_callback(self, callback=None, *args, **kwargs):
            new = safely("stable_baselines3.learn", added, callback)
            return original(self, callback if new is None else new, *args, **kwargs)

        return _init_callback

    def path_of(result, args, kwargs):
        path = args[1] if len(args) > 1 else kwargs.get("path")
        if isinstance(path, (str, os.PathLike)):
            path = os.fspath(path)
            return path if os.path.splitext(path)[1] else path + ".zip"
        return getattr(path, "name", None)

    wrap(module.BaseAlgorithm, "_init_callback", make)
    wrap(module.BaseAlgorithm, "save", timed_save("stable_baselines3.save", path_of, "stable-baselines3"))


def make_callback(base):
    class OptimizeObserver(base):
        """Reports the counts of learn; saves by the model's save and stops by the result of _on_step."""

        def __init__(self):
            super().__init__()
            self.training_seen = None
            self.stopping = False

        def _on_training_start(self):
            safely("stable_baselines3.begin", self.begin)

        def _on_step(self):
            safely("stable_baselines3.step", self.step)
            return not self.stopping

        def _on_training_end(self):
            safely("stable_baselines3.end", self.end)

        def begin(self):
            begun, end = self.model.num_timesteps, self.model._total_timesteps
            self.training_seen = t = observer.begin("stable-baselines3", self, step=begun, total_steps=end, unit="timestep", batch_size=self.model.n_envs)
            if (t.left or 0) > 0 and not getattr(self, "locals", {}).get("reset_num_timesteps", True):  # the next calls continue its count
                t.total_steps, t.loops, t.left = end + (t.left - 1) * (end - begun), 2, None

        def step(self):
            t = self.training_seen
            if t is None or t is not observer.training:
                return
            before, t.step = t.step, self.model.num_timesteps
            t.samples = t.step
            if t.step <= getattr(self.model, "learning_starts", 0):  # random actions without learning, at another pace
                observer.report_due = math.inf
            elif observer.report_due == math.inf:
                observer.report_due = 0.0
            observer.advance(t.step - before)

        def fill(self, t, world):
            t.step = t.samples = self.model.num_timesteps

        def save(self, path):
            path = path or os.path.join(optimize_observer.directory, "optimize-timestep-%d.zip" % self.model.num_timesteps)
            self.model.save(path)
            return path

        def stop(self):
            self.stopping = True

        def end(self):
            t, self.training_seen = self.training_seen, None
            if t is not None and t is observer.training:
                observer.finish()

    return OptimizeObserver
