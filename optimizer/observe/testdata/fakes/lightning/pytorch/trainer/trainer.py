import os
from types import SimpleNamespace


class Trainer:
    def __init__(self, max_epochs=2, batches=5, callbacks=()):
        self.callbacks = list(callbacks)
        self.max_epochs, self.max_steps, self.num_training_batches, self.accumulate_grad_batches = max_epochs, -1, batches, 1
        self.global_step = self.current_epoch = 0
        self.world_size, self.should_stop, self.default_root_dir, self.callback_metrics = 1, False, os.getcwd(), {}
        self.train_dataloader = SimpleNamespace(batch_size=8)
        self.lightning_module = SimpleNamespace(automatic_optimization=True, training_step=lambda batch_idx: {"loss": 0.25})
        self.checkpoint_callback = None

    def save_checkpoint(self, filepath, weights_only=None, storage_options=None):
        os.makedirs(os.path.dirname(os.path.abspath(filepath)), exist_ok=True)
        with open(filepath, "w") as f:
            f.write("state")

    def event(self, name, *args):
        for c in self.callbacks:
            if hasattr(c, name):
                getattr(c, name)(self, self.lightning_module, *args)

    def fit(self, pause=0):
        import time

        self.event("on_train_start")
        while self.current_epoch < self.max_epochs and not self.should_stop:
            for i in range(self.num_training_batches):
                time.sleep(pause)
                self.global_step += 1
                self.event("on_train_batch_end", self.lightning_module.training_step(i), None, i)
                if self.should_stop:
                    break
            self.callback_metrics = {"val_loss": 0.75}
            self.event("on_train_epoch_end")
            self.save_checkpoint("epoch-%d.ckpt" % self.current_epoch)
            self.current_epoch += 1
        self.event("on_train_end")
