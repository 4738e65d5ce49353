"""fastai 2, which has optimizers and loaders of its own: the events of a Learner. A step is a batch.

A callback in the Learner would become a part of learn.export().
"""

from .core import number, observer, safely, scalar, timed_save, wrap

COLUMNS = {"train_loss": "train_loss", "valid_loss": "test_loss", "accuracy": "test_accuracy"}


def install(module):
    observer.framework("fastai")

    def make(original):
        def __call__(self, event_name):
            original(self, event_name)
            handle = EVENTS.get(event_name) if isinstance(event_name, str) else None
            if handle is not None:
                safely("fastai." + event_name, handle, self)

        return __call__

    def path_of(result, args, kwargs):
        return None if preparing(args[0]) else result  # the search of the learning rate removes its file

    wrap(module.Learner, "__call__", make)
    if hasattr(module.Learner, "save"):
        wrap(module.Learner, "save", timed_save("fastai.save", path_of, "fastai"))


def preparing(learner):
    """Report whether fit is used for a search of the learning rate or for predictions, as fastai's own callbacks do."""
    return hasattr(learner, "lr_finder") or hasattr(learner, "gather_preds")


class Fit:
    """The counts of the fit that is running."""

    training = learner = None

    def begin(self, learner):
        self.training = None
        if preparing(learner):
            return
        train, self.learner = learner.dls.train, learner
        size, count = getattr(train, "bs", None), getattr(train, "n", None)
        self.training = observer.begin("fastai", self, total_epochs=learner.n_epoch, total_steps=learner.n_epoch * len(train), epoch=0.0,
                                       batch_size=size, data_count=min(count, size * len(train)) if size and count else None)

    def mine(self, learner):
        return self.training if learner is self.learner and self.training is not None and self.training is observer.training else None

    def batch(self, learner):
        t = self.mine(learner)
        if t is None or not learner.training:
            return
        t.step += 1
        t.epoch = learner.epoch + min(1.0, (learner.iter + 1) / learner.n_iter)
        if t.data_count:
            t.samples = learner.epoch * t.data_count + min((learner.iter + 1) * t.batch_size, t.data_count)
        observer.advance()

    def fill(self, t, world):
        value = number(scalar(getattr(self.learner, "loss", None)))
        if value is not None and self.learner.training:
            t.losses["train_loss"] = value

    def epoch(self, learner):
        t = self.mine(learner)
        if t is None:
            return
        t.epoch = learner.epoch + 1.0
        recorder = getattr(learner, "recorder", None)
        for name, value in zip(getattr(recorder, "metric_names", ()), getattr(recorder, "log", ())):
            value = number(scalar(value))
            if name in COLUMNS and value is not None:
                t.losses[COLUMNS[name]] = value
        observer.boundary()

    def end(self, learner):
        t, self.training = self.mine(learner), None
        if t is not None:
            observer.finish()
        self.learner = None


fit = Fit()
EVENTS = {"before_fit": fit.begin, "after_batch": fit.batch, "after_epoch": fit.epoch, "after_fit": fit.end}
