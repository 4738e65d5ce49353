from skorch import NeuralNetClassifier

net = NeuralNetClassifier(Network, max_epochs=12, lr=0.1, batch_size=64)
net.fit(X, y)
