import os

import keras

EPOCHS = int(os.environ.get("EPOCHS", "6"))
model.fit(x, y, epochs=EPOCHS, callbacks=[keras.callbacks.BackupAndRestore("backup")])
