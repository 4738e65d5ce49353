from tensorflow import keras
from tensorflow.keras import layers

(x, y), (xt, yt) = keras.datasets.fashion_mnist.load_data()
model = keras.Sequential([
    layers.Conv2D(32, 3, activation="relu"), layers.Flatten(), layers.Dense(10),
])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=64, epochs=7, validation_data=(xt, yt),
          callbacks=[keras.callbacks.CSVLogger("fashion.csv")])
model.evaluate(xt, yt, batch_size=500)
