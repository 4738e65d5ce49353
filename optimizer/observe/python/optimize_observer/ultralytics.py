"""Ultralytics: callbacks in the trainer, for every task."""

import os
import shutil

from .core import clock, number, observer, safely, scalar, timed_save, wrap


def install(module):
    observer.framework("ultralytics")

    def make(original):
        def __init__(self, *args, **kwargs):
            original(self, *args, **kwargs)
            safely("ultralytics.trainer", lambda: Adapter().attach(self))

        return __init__

    def make_step(original):
        def optimizer_step(self, *args, **kwargs):
            result = original(self, *args, **kwargs)
            adapter = getattr(self, "_optimize_adapter", None)
            if adapter is not None:
                safely("ultralytics.step", adapter.stepped, self)
            return result

        return optimizer_step

    trainer = module.BaseTrainer
    wrap(trainer, "__init__", make)
    wrap(trainer, "optimizer_step", make_step)
    wrap(trainer, "save_model", timed_save("ultralytics.save", lambda result, args, kwargs: args[0].last, "ultralytics"))


class Adapter:
    """Reports the counts of a trainer. Saves and stops at the end of an epoch, where checkpoints are resumable."""

    def __init__(self):
        self.training = None
        self.want_save = self.want_stop = False
        self.batches = self.steps = 0  # batches of this epoch; optimizer steps since the end of the last batch

    def attach(self, trainer):
        trainer._optimize_adapter = self
        for event in ("on_train_start", "on_train_epoch_start", "on_train_batch_end", "on_train_epoch_end", "on_model_save", "on_fit_epoch_end", "on_train_end"):
            trainer.add_callback(event, self.guarded(event))

    def guarded(self, event):
        method = getattr(self, event)

        def callback(trainer):
            safely("ultralytics." + event, method, trainer)

        return callback

    def __reduce__(self):
        return Adapter, ()  # a copied or pickled trainer gets an adapter without state

    def on_train_start(self, trainer):
        self.length = len(trainer.train_loader)
        data = getattr(trainer.train_loader, "dataset", None)
        self.training = observer.begin("ultralytics", self, total_epochs=trainer.epochs, epoch=float(trainer.start_epoch),
                                       batch_size=trainer.batch_size * max(1, trainer.accumulate), data_count=len(data) if data is not None else None)
        self.trainer = trainer

    def on_train_epoch_start(self, trainer):
        self.batches = 0

    def stepped(self, trainer):
        t = self.training
        if t is not None and t is observer.training:
            t.step += 1
            t.batch_size = trainer.batch_size * max(1, trainer.accumulate)
            self.steps += 1

    def on_train_batch_end(self, trainer):
        self.batches += 1
        t = self.training
        if t is not None and t is observer.training:
            t.epoch, t.total_epochs = trainer.epoch + min(1.0, self.batches / self.length), trainer.epochs
            if t.data_count:
                t.samples = trainer.epoch * t.data_count + min(self.batches * trainer.batch_size, t.data_count)
            t.reached = clock()  # an optimizer step may take several batches
            steps, self.steps = self.steps, 0
            if steps:
                observer.advance(steps)
            else:
                observer.pause()

    def on_train_epoch_end(self, trainer):
        self.trained = clock()

    def on_model_save(self, trainer):
        if not self.want_save:
            return
        path = os.fspath(trainer.last)
        if self.want_stop:
            # At the end of a training, Ultralytics strips from last.pt the state that resuming requires.
            kept = os.path.join(os.path.dirname(path), "optimize-epoch-%d.pt" % (trainer.epoch + 1))
            shutil.copyfile(path, kept)
            path, trainer.stop = kept, True
        self.want_save = self.want_stop = False
        observer.requests.saved(path)

    def on_fit_epoch_end(self, trainer):
        t = self.training
        if t is None or t is not observer.training:
            return
        if trainer.epoch < trainer.epochs:
            t.closing = clock() - self.trained  # the final evaluation of the best model takes as long
        t.epoch = min(trainer.epoch + 1.0, trainer.epochs)  # the final evaluation counts as another epoch
        losses = trainer.tloss if isinstance(trainer.tloss, dict) else {}
        values = [number(scalar(v)) for v in losses.values()]
        if values and None not in values:
            t.losses["train_loss"] = sum(values)
        observer.boundary()

    def on_train_end(self, trainer):
        t, self.training, self.trainer = self.training, None, None
        if t is not None and t is observer.training:
            observer.finish()

    def save(self, path):
        if not self.trainer.args.save:
            raise NotImplementedError("save=False")
        self.want_save = True

    def stop(self):
        self.want_stop = True
