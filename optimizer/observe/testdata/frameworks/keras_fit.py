import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np

rng = np.random.default_rng(0)
x, y = rng.normal(size=(500, 10)).astype("float32"), rng.integers(0, 2, size=(500, 1))
if len(sys.argv) > 2:
    model = keras.models.load_model(sys.argv[2])
else:
    model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=int(sys.argv[1]), batch_size=32, validation_split=0.2, verbose=0, initial_epoch=int(sys.argv[3]) if len(sys.argv) > 3 else 0,
          callbacks=[keras.callbacks.ModelCheckpoint("best-{epoch:02d}.keras")])
