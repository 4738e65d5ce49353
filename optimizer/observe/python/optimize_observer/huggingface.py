"""Hugging Face: transformers.Trainer, which TRL's trainers subclass, and accelerate's save_state."""

import os

from .core import observer, safely, scalar, timed_save, wrap


def install_trainer(module):
    observer.framework("transformers")
    callback = make_callback(module.TrainerCallback)

    def make(original):
        def __init__(self, *args, **kwargs):
            original(self, *args, **kwargs)
            safely("transformers.Trainer", lambda: self.add_callback(callback()))

        return __init__

    def path_of(result, args, kwargs):
        trainer = args[0]
        path = os.path.join(trainer.args.output_dir, "checkpoint-%d" % trainer.state.global_step)
        for c in trainer.callback_handler.callbacks:
            if isinstance(c, callback):
                c.written = path
        return path

    wrap(module.Trainer, "__init__", make)
    if hasattr(module.Trainer, "_save_checkpoint"):
        wrap(module.Trainer, "_save_checkpoint", timed_save("transformers.save", path_of, "transformers"))


def make_callback(base):
    class OptimizeObserver(base):
        """Reports the counts of the Trainer; saves and stops by its control flags."""

        def __init__(self):
            self.training = None
            self.written = None
            self.want_save = self.want_stop = False

        def __reduce__(self):
            return base, ()  # a copy of the Trainer, also in a process without the observer, reports nothing

        def on_train_begin(self, args, state, control, **kwargs):
            safely("transformers.begin", self.begin, args, state)

        def on_step_end(self, args, state, control, **kwargs):
            safely("transformers.step", self.step, state, control)

        def on_epoch_end(self, args, state, control, **kwargs):
            safely("transformers.epoch", self.epoch)

        def on_log(self, args, state, control, logs=None, **kwargs):
            safely("transformers.log", self.log, logs or {})

        def on_save(self, args, state, control, **kwargs):
            safely("transformers.saved", self.saved)

        def on_train_end(self, args, state, control, **kwargs):
            safely("transformers.end", self.end, state)

        def begin(self, args, state):
            world = max(1, args.world_size)
            size = args.train_batch_size
            if getattr(args, "auto_find_batch_size", False):  # halved after each failure for want of memory
                size = getattr(state, "train_batch_size", None) or size
            self.batch = size * args.gradient_accumulation_steps * world
            epochs = None if args.max_steps > 0 else args.num_train_epochs
            self.training = observer.begin("transformers", self, step=state.global_step, epoch=state.epoch or 0.0, total_steps=state.max_steps,
                                           total_epochs=epochs, batch_size=self.batch)

        def step(self, state, control):
            t = self.training
            if t is None or t is not observer.training:
                return
            t.step, t.epoch, t.total_steps = state.global_step, state.epoch, state.max_steps
            t.samples = state.global_step * self.batch
            observer.advance()
            if self.want_save:
                control.should_save, self.want_save = True, False
            if self.want_stop:
                control.should_training_stop, self.want_stop = True, False

        def epoch(self):
            if self.training is not None and self.training is observer.training:
                observer.boundary()

        def log(self, logs):
            if self.training is not None:
                for name, column in (("loss", "train_loss"), ("eval_loss", "test_loss"), ("eval_accuracy", "test_accuracy")):
                    if name in logs:
                        self.training.losses[column] = scalar(logs[name])

        def save(self, path):
            self.want_save, self.written = True, None  # the Trainer writes to its usual path

        def stop(self):
            self.want_stop = True

        def saved(self):
            if self.written is not None and observer.requests is not None:
                observer.requests.saved(self.written)

        def end(self, state):
            t, self.training = self.training, None
            if t is not None and t is observer.training:
                t.step, t.epoch = state.global_step, state.epoch
                observer.finish()

    return OptimizeObserver


def install_accelerate(module):
    observer.framework("accelerate")

    def path_of(result, args, kwargs):
        return result or (args[1] if len(args) > 1 else kwargs.get("output_dir"))

    wrap(module.Accelerator, "save_state", timed_save("accelerate.save_state", path_of, "accelerate"))
