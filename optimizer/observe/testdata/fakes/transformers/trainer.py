import os
from types import SimpleNamespace


class TrainerCallback:
    pass


class Trainer:
    def __init__(self, output_dir="out", epochs=2, steps_per_epoch=5, save_every=5):
        self.args = SimpleNamespace(output_dir=output_dir, world_size=1, train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=epochs, max_steps=-1)
        self.state = SimpleNamespace(global_step=0, epoch=0.0, max_steps=epochs * steps_per_epoch, num_train_epochs=epochs)
        self.control = SimpleNamespace(should_save=False, should_training_stop=False)
        self.callback_handler = SimpleNamespace(callbacks=[])
        self.steps_per_epoch, self.save_every = steps_per_epoch, save_every

    def add_callback(self, callback):
        self.callback_handler.callbacks.append(callback)

    def event(self, name, **kwargs):
        for c in self.callback_handler.callbacks:
            if hasattr(c, name):
                getattr(c, name)(self.args, self.state, self.control, **kwargs)

    def _save_checkpoint(self, model, trial):
        import torch

        path = os.path.join(self.args.output_dir, "checkpoint-%d" % self.state.global_step)
        os.makedirs(path)
        torch.save({}, os.path.join(path, "optimizer.pt"))

    def train(self, pause=0, evaluation=0):
        import time

        self.event("on_train_begin")
        while self.state.global_step < self.state.max_steps and not self.control.should_training_stop:
            time.sleep(pause)
            self.control.should_save = False
            self.state.global_step += 1
            self.state.epoch = self.state.global_step / self.steps_per_epoch
            self.event("on_step_end")
            self.event("on_log", logs={"loss": 0.5})
            if self.state.global_step % self.steps_per_epoch == 0:
                self.event("on_epoch_end")
                time.sleep(evaluation)
            if self.control.should_save or self.state.global_step % self.save_every == 0:
                self._save_checkpoint(None, None)
                self.event("on_save")
        self.event("on_train_end")
