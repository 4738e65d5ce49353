import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np

rng = np.random.default_rng(0)
x, y = rng.normal(size=(640, 10)).astype("float32"), rng.integers(0, 2, size=(640, 1))
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
model.compile(optimizer="adam", loss="binary_crossentropy")
for epoch in range(3):
    for i in range(0, len(x), 32):
        model.train_on_batch(x[i:i + 32], y[i:i + 32])
    model.save("model.keras")
