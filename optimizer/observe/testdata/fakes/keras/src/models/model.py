from keras.src.callbacks import CallbackList
from keras.src.trainers.epoch_iterator import EpochIterator


class Model:
    stop_training = False
    optimizer = None

    def save(self, filepath, overwrite=True):
        with open(filepath, "w") as f:
            f.write("state")

    def save_weights(self, filepath):
        self.save(filepath)

    def train_on_batch(self, x):
        if self.optimizer is not None:
            self.optimizer.apply([])

    def evaluate(self, rows):
        EpochIterator(rows, 4)
        CallbackList(None, model=self, epochs=1, steps=1)

    def fit(self, rows, batch_size=32, epochs=1, initial_epoch=0, pause=0, pool=False):
        import time

        iterator = EpochIterator(rows, batch_size)
        callbacks = CallbackList([], add_history=True, model=self, epochs=epochs, steps=iterator.num_batches)
        callbacks._async_train = pool
        callbacks.event("on_train_begin")
        for epoch in range(initial_epoch, epochs):
            callbacks.event("on_epoch_begin", epoch)
            for i in range(iterator.num_batches):
                time.sleep(pause)
                callbacks.on_train_batch_end(i, {"loss": 0.5})
                if self.stop_training:
                    break
            self.evaluate(10)
            callbacks.event("on_epoch_end", epoch, {"loss": 0.5, "val_loss": 0.75})
            if self.stop_training:
                break
        callbacks.event("on_train_end")
