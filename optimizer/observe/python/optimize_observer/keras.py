"""Keras 3 and tf.keras: a callback in the list created by fit, the batch size of its data, Model.save. In loops of the script, whose
length is found as that of a PyTorch loop, a step is a call of train_on_batch or of the apply of an optimizer.
"""

import os
import sys
import threading
import weakref

import optimize_observer

from .core import POLL_INTERVAL, clock, number, observer, safely, scalar, timed_save, wrap

data = {"adapter": None}  # weak reference to that of the last EpochIterator: fit creates the one for training just before its callbacks

COLUMNS = (("loss", "train_loss"), ("val_loss", "test_loss"), ("accuracy", "train_accuracy"), ("acc", "train_accuracy"),
           ("val_accuracy", "test_accuracy"), ("val_acc", "test_accuracy"))


def install_callbacks(module):
    lists = module.__dict__.get("CallbackList")
    if lists is None or lists.__module__ != module.__name__:
        return  # Keras 3 imports it from the module in which it is hooked
    observer.framework("keras")
    base = lists.__mro__[1] if len(lists.__mro__) > 2 else module.Callback
    callback = make_callback(base)

    def add(callbacks):
        own = callback()
        callbacks.callbacks.append(own)
        own.set_model(callbacks.model)
        own.set_params(callbacks.params)
        if hasattr(callbacks, "_should_call_train_batch_hooks"):  # Keras 2 sets it in the constructor
            callbacks._should_call_train_batch_hooks = True

    def make(original):
        def __init__(self, callbacks=None, add_history=False, *args, **kwargs):
            original(self, callbacks, add_history, *args, **kwargs)
            if add_history:  # set by fit only
                safely("keras.fit", add, self)

        return __init__

    wrap(lists, "__init__", make)

    def serve(callbacks, batch, logs):
        own = callbacks.callbacks[-1] if callbacks.callbacks else None
        if isinstance(own, callback) and getattr(callbacks, "_async_train", False):
            own.between(batch, logs)

    def make_end(original):
        def on_train_batch_end(self, batch, logs=None):
            original(self, batch, logs)
            safely("keras.request", serve, self, batch, logs)

        return on_train_batch_end

    if hasattr(lists, "_configure_async_dispatch"):  # Keras 3 may run callbacks in a thread pool, which serves no request
        wrap(lists, "on_train_batch_end", make_end)


def install_data(module):
    def note(iterator):
        data["adapter"] = weakref.ref(iterator.data_adapter)

    def make(original):
        def __init__(self, *args, **kwargs):
            original(self, *args, **kwargs)
            safely("keras.data", note, self)

        return __init__

    wrap(module.EpochIterator, "__init__", make)


def install_model(module):
    def path_of(result, args, kwargs):
        path = args[1] if len(args) > 1 else kwargs.get("filepath")
        saved["directory"] = os.path.dirname(os.path.abspath(os.fsdecode(path)))
        return path

    for name in ("save", "save_weights"):
        wrap(module.Model, name, timed_save("keras." + name, path_of, "keras"))
    if hasattr(module.Model, "train_on_batch"):
        wrap(module.Model, "train_on_batch", step(lambda: False, lambda model, seconds: (getattr(model, "optimizer", None) or model, None)))


def install_optimizer(module):
    """Count the steps of loops without train_on_batch, where they are not compiled: by PyTorch, and TensorFlow without tf.function."""
    backend, stateless = module.backend.backend(), module.backend.common.stateless_scope.in_stateless_scope
    if backend == "torch":
        compiling = sys.modules["torch"].compiler.is_compiling

        def unseen():
            return compiling() or stateless()
    elif backend == "tensorflow":
        eager = sys.modules["tensorflow"].executing_eagerly

        def unseen():
            return not eager() or stateless()
    else:
        return
    for method in ("apply", "apply_gradients"):
        wrap(module.BaseOptimizer, method, step(unseen, lambda optimizer, seconds: (optimizer, seconds)))


stepping = set()  # threads within a step


def step(unseen, facts):
    """Return a make for wrap that counts a call as a step of a loop in the script, unless it is part of another step, or unseen."""

    def count(owner, seconds):
        from .pytorch import loop

        loop.stepped(*facts(owner, seconds), framework="keras loop")

    def make(original):
        def call(self, *args, **kwargs):
            if unseen() or threading.get_ident() in stepping:
                return original(self, *args, **kwargs)
            thread, begun = threading.get_ident(), clock()
            stepping.add(thread)
            try:
                result = original(self, *args, **kwargs)
            finally:
                stepping.discard(thread)
            safely("keras.loop", count, self, clock() - begun)
            return result

        return call

    return make


def install_backup(module):
    # Weights and the epoch are two files; model.save_weights would report the first.
    wrap(module.BackupAndRestore, "_save_model", timed_save("keras.backup", lambda result, args, kwargs: args[0]._weights_path, "keras"))


saved = {"directory": None}  # directory of the script's last save


def make_callback(base):
    class OptimizeObserver(base):
        """Reports the counts of fit; saves by Model.save and stops by stop_training."""

        async_safe = True  # does not affect how Keras 3 dispatches callbacks
        _supports_tf_logs = True

        def on_train_begin(self, logs=None):
            self.training, self.lock = None, threading.Lock()
            safely("keras.begin", self.begin)

        def on_epoch_begin(self, epoch, logs=None):
            self.current = epoch

        def on_train_batch_end(self, batch, logs=None):
            safely("keras.step", self.batch_end, batch, logs)

        def on_epoch_end(self, epoch, logs=None):
            safely("keras.epoch", self.epoch_end, epoch, logs or {})

        def on_train_end(self, logs=None):
            safely("keras.end", self.end)

        def begin(self):
            self.current, self.done, self.logs, self.last = 0, 0, None, -1
            self.stopped, self.look = False, 0.0
            self.steps = self.params.get("steps")
            adapter, data["adapter"] = data["adapter"], None
            adapter = adapter and adapter()
            size = getattr(adapter, "batch_size", None)
            epochs = self.params.get("epochs")
            count = None
            if size and self.steps:
                partial = getattr(adapter, "partial_batch_size", None) if getattr(adapter, "has_partial_batch", False) else None
                count = (self.steps - 1) * size + (partial or size) if number(size) is not None else None
            self.size, self.count = size, count
            self.training = observer.begin("keras", self, total_epochs=epochs, total_steps=self.steps * epochs if self.steps and epochs else None,
                                           batch_size=size, data_count=count)

        def batch_end(self, batch, logs):
            t = self.training
            if t is None or t is not observer.training:
                return
            if threading.get_ident() != t.thread:
                with self.lock:  # Keras 3 runs callbacks in a thread pool if all of them allow it
                    self.batch_end_elsewhere(t, batch, logs)
                return
            if batch == self.last:
                return
            observer.advance(self.note(t, batch, logs))

        def batch_end_elsewhere(self, t, batch, logs):
            if batch > self.last and t is observer.training:  # batches may end out of order; the next epoch waits for all
                observer.advance(self.note(t, batch, logs), requests=False)

        def between(self, batch, logs):
            """Serve requests in the training's own thread after a batch whose end the thread pool reports."""
            t, now = self.training, clock()
            if t is None or t is not observer.training or now < self.look:
                return
            self.look = now + POLL_INTERVAL
            with self.lock:
                if batch > self.last:
                    observer.advance(self.note(t, batch, logs), requests=False)
                observer.tick(now)

        def note(self, t, batch, logs):
            """Set the counts of t to the end of a batch; return the number of steps since the previous one."""
            steps = batch - self.last if batch > self.last else batch + 1
            self.last, self.logs = batch, logs
            if self.steps:
                t.step = self.current * self.steps + batch + 1
                t.epoch = self.current + min(1.0, (batch + 1) / self.steps)
            else:
                t.step += steps
            if self.size:
                full, rest = divmod(t.step, self.steps) if self.steps else (0, t.step)
                t.samples = full * (self.count or 0) + rest * self.size
            return steps

        def fill(self, t, world):
            loss = number(scalar((self.logs or {}).get("loss")))
            if loss is not None:
                t.losses["train_loss"] = loss

        def epoch_end(self, epoch, logs):
            t = self.training
            if t is None or t is not observer.training:
                return
            if not self.stopped or self.steps and self.last + 1 >= self.steps:  # else on request, within the epoch
                t.epoch = epoch + 1.0
            self.last, self.logs = -1, None
            for name, column in COLUMNS:
                value = number(scalar(logs.get(name)))
                if value is not None:
                    t.losses[column] = value
            observer.boundary()

        def save(self, path):
            if not path:
                directory = saved["directory"] or optimize_observer.directory
                path = os.path.join(directory, "optimize-step-%d.keras" % self.training.step)
            self.model.save(path)
            return path

        def stop(self):
            self.stopped = self.model.stop_training = True

        def end(self):
            t, self.training = self.training, None
            if t is not None and t is observer.training:
                observer.finish()

    return OptimizeObserver
