"""Lightning, under both package names."""

import importlib
import math
import os

from .core import number, observer, safely, scalar, timed_save, wrap


# Hooks of each batch that the callback does not use. Lightning skips what is not callable; a call of an empty one takes
# microseconds, most of them for its profiler.
UNUSED = ("on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step",
          "on_validation_batch_start", "on_validation_batch_end", "on_test_batch_start", "on_test_batch_end",
          "on_predict_batch_start", "on_predict_batch_end")


def install(module):
    package = module.__name__.split(".trainer.")[0]
    observer.framework(package)
    callback = make_callback(importlib.import_module(package + ".callbacks.callback").Callback, package)
    saving = getattr(importlib.import_module(package + ".callbacks"), "Checkpoint", ())

    def add(callbacks):
        """Add a callback behind those of the script, before those that save, which Lightning keeps last: a script may use their indices."""
        at = len(callbacks)
        while at and isinstance(callbacks[at - 1], saving):
            at -= 1
        callbacks.insert(at, callback())

    def make(original):
        def __init__(self, *args, **kwargs):
            original(self, *args, **kwargs)
            safely(package + ".Trainer", add, self.callbacks)

        return __init__

    def path_of(result, args, kwargs):
        return args[1] if len(args) > 1 else kwargs.get("filepath")

    wrap(module.Trainer, "__init__", make)
    wrap(module.Trainer, "save_checkpoint", timed_save(package + ".save", path_of, "lightning"))


def install_tuner(module):
    """Leave out the trainings that search for a learning rate or a batch size: they run without the Trainer's callbacks, and prepare
    the one to count."""

    def make(original):
        def search(*args, **kwargs):
            observer.searches += 1
            try:
                return original(*args, **kwargs)
            finally:
                observer.searches -= 1

        return search

    for name in ("_lr_find", "_scale_batch_size"):
        if hasattr(module, name):
            wrap(module, name, make)


def install_fabric(module):
    """Hook Fabric.save, which saves through a buffer, so that torch.save has no path. The loop is in the script."""

    def path_of(result, args, kwargs):
        return args[1] if len(args) > 1 else kwargs.get("path")

    wrap(module.Fabric, "save", timed_save(module.__name__ + ".save", path_of, "lightning"))


def make_callback(base, package):
    class OptimizeObserver(base):
        """Reports the counts of the Trainer; saves by save_checkpoint and stops by should_stop."""

        def __init__(self):
            self.training = self.trainer = None

        def __reduce__(self):
            return base, ()  # a copy of the Trainer, also in a process without the observer, reports nothing

        def on_train_start(self, trainer, module):
            safely(package + ".begin", self.begin, trainer)

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx, *rest):
            safely(package + ".step", self.step, trainer, outputs, batch_idx)

        def on_train_epoch_end(self, trainer, module):
            safely(package + ".epoch", self.epoch, trainer)

        def on_validation_end(self, trainer, module):
            safely(package + ".validation", self.losses, trainer)

        def on_train_end(self, trainer, module):
            safely(package + ".end", self.end)

        def on_exception(self, trainer, module, exception):
            safely(package + ".end", self.end)

        def begin(self, trainer):
            self.trainer = trainer
            self.batches = trainer.num_training_batches
            if not math.isfinite(self.batches):
                self.batches = None
            accumulate = max(1, trainer.accumulate_grad_batches)
            loader = trainer.train_dataloader
            size = getattr(loader, "batch_size", None) or getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
            epochs = trainer.max_epochs if (trainer.max_epochs or -1) > 0 else None
            steps = trainer.max_steps if (trainer.max_steps or -1) > 0 else None
            if epochs and self.batches and trainer.lightning_module.automatic_optimization:
                planned = epochs * math.ceil(self.batches / accumulate)
                steps = min(steps, planned) if steps else planned
            self.size = size * trainer.world_size if size else None  # of a batch; accumulation and the steps of a batch may change
            self.batch = size * accumulate * trainer.world_size if size else None
            self.training = observer.begin(package, self, step=trainer.global_step, epoch=float(trainer.current_epoch), total_epochs=epochs,
                                           total_steps=steps, batch_size=self.batch, samples=trainer.global_step * self.batch if size else None,
                                           data_count=self.size * self.batches if size and self.batches else None)

        def step(self, trainer, outputs, batch_idx):
            t = self.training
            if t is None or t is not observer.training:
                return
            before, t.step = t.step, trainer.global_step
            if self.batches:
                t.epoch = trainer.current_epoch + (batch_idx + 1) / self.batches
            if self.size:
                t.samples += self.size
            self.loss = outputs.get("loss") if isinstance(outputs, dict) else outputs  # not all of outputs, which may be large
            if t.step != before:
                observer.advance()

        def fill(self, t, world):
            loss = number(scalar(getattr(self, "loss", None)))
            if loss is not None:
                t.losses["train_loss"] = loss

        def epoch(self, trainer):
            t = self.training
            if t is not None and t is observer.training:
                if not (trainer.should_stop and self.batches):  # else the epoch may have ended early, after a batch that counted
                    t.epoch = trainer.current_epoch + 1.0
                self.losses(trainer)
                observer.boundary()

        def losses(self, trainer):
            if self.training is None:
                return
            for name, column in (("val_loss", "test_loss"), ("val_acc", "test_accuracy"), ("train_loss", "train_loss"), ("train_acc", "train_accuracy")):
                value = number(scalar(trainer.callback_metrics.get(name)))
                if value is not None:
                    self.training.losses[column] = value

        def save(self, path):
            trainer = self.trainer
            if not path:
                saver = trainer.checkpoint_callback
                directory = getattr(saver, "dirpath", None) or os.path.join(trainer.default_root_dir, "checkpoints")
                path = os.path.join(directory, "optimize-step=%d.ckpt" % trainer.global_step)
            trainer.save_checkpoint(path)
            return path

        def stop(self):
            self.trainer.should_stop = True

        def end(self):
            t, self.training = self.training, None
            if t is not None and t is observer.training:
                observer.finish()
            self.trainer = None

    try:
        skips = hasattr(importlib.import_module(package + ".trainer.call"), "_call_callback_hooks")
    except ImportError:
        skips = False  # before 2.0
    for name in UNUSED if skips else ():
        setattr(OptimizeObserver, name, None)
    return OptimizeObserver
