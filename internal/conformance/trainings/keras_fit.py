"""Keras convolution network under model.fit on the torch backend, continued from a backup where one exists."""
import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

import truth


class Count(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        done = self.epoch * self.params["steps"] + batch + 1
        truth.at(done, done / self.params["steps"], done * 64)


def batches(x, y):
    while True:
        for at in range(0, len(x), 64):
            yield x[at:at + 64], y[at:at + 64]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--samples", type=int, default=6400)
    parser.add_argument("--verbose", default="auto", choices=["auto", "0", "1", "2"])
    parser.add_argument("--generator", action="store_true", help="batches from a Python generator")
    args = parser.parse_args()
    keras.utils.set_random_seed(4)
    rng = np.random.default_rng(4)
    y = rng.integers(0, 10, args.samples)
    x = rng.normal(0, 0.5, (args.samples, 20, 20, 1)).astype("float32")
    for label in range(10):
        x[y == label, 2 * label:2 * label + 2] += 1
    model = keras.Sequential([
        keras.Input((20, 20, 1)), keras.layers.Conv2D(16, 3, activation="relu"), keras.layers.MaxPooling2D(2),
        keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dropout(0.3), keras.layers.Dense(10, activation="softmax")])
    model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    data = dict(x=batches(x, y), steps_per_epoch=args.samples // 64) if args.generator else dict(x=x, y=y, batch_size=64)
    model.fit(**data, epochs=args.epochs, verbose=args.verbose if args.verbose == "auto" else int(args.verbose),
              callbacks=[keras.callbacks.BackupAndRestore("backup"), keras.callbacks.ModelCheckpoint("model.keras"), Count()])
    model.evaluate(x[:640], y[:640], verbose=0)


if __name__ == "__main__":
    main()
