import os
from types import SimpleNamespace


class BaseTrainer:
    def __init__(self, epochs=3):
        self.callbacks = {}
        self.epochs, self.start_epoch, self.batch_size, self.accumulate, self.stop = epochs, 0, 8, 2, False
        self.args = SimpleNamespace(save=True)
        self.last, self.tloss = "last.pt", {"box": 1.0, "cls": 0.5}

    def add_callback(self, event, callback):
        self.callbacks.setdefault(event, []).append(callback)

    def run_callbacks(self, event):
        for callback in self.callbacks.get(event, []):
            callback(self)

    def optimizer_step(self):
        pass

    def save_model(self):
        with open(self.last, "w") as f:
            f.write("state %d" % self.epoch)
        return True

    def train(self, pause=0):
        import time

        class Loader(list):
            dataset = range(30)

        self.train_loader = Loader([0] * 4)
        self.run_callbacks("on_train_start")
        for self.epoch in range(self.start_epoch, self.epochs):
            self.run_callbacks("on_train_epoch_start")
            for i in range(4):
                time.sleep(pause)
                if i % 2:
                    self.optimizer_step()
                self.run_callbacks("on_train_batch_end")
            self.run_callbacks("on_train_epoch_end")
            time.sleep(0.01)  # validation
            if self.save_model():
                self.run_callbacks("on_model_save")
            self.run_callbacks("on_fit_epoch_end")
            if self.stop:
                break
        with open(self.last, "w") as f:
            f.write("stripped")
        self.epoch += 1
        self.run_callbacks("on_fit_epoch_end")
        self.epoch -= 1
        self.run_callbacks("on_train_end")
