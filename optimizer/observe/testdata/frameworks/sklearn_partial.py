import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

rng = np.random.default_rng(0)
x, y = rng.normal(size=(500, 8)), rng.integers(0, 2, 500)
scaler = StandardScaler()
model = SGDClassifier(loss="log_loss")
for epoch in range(5):
    for i in range(0, 500, 100):
        scaler.partial_fit(x[i:i + 100])
        model.partial_fit(scaler.transform(x[i:i + 100]), y[i:i + 100], classes=[0, 1])
net = MLPClassifier(hidden_layer_sizes=(4,))
net.partial_fit(x, y, classes=[0, 1])
assert net.predict(x).shape == (500,)
