"""Out-of-core learning with SGDClassifier.partial_fit."""
import argparse

import numpy as np
from sklearn.linear_model import SGDClassifier

import truth

parser = argparse.ArgumentParser()
parser.add_argument("--n-epochs", type=int, default=100)
parser.add_argument("--batch-size", type=int, default=500)
parser.add_argument("--verbose", type=int, default=1)
args = parser.parse_args()
rng = np.random.default_rng(11)
x = rng.normal(size=(60000, 200))
y = (x[:, :5].sum(axis=1) > 0).astype(int)
model = SGDClassifier(loss="log_loss")
steps = 0
for epoch in range(args.n_epochs):
    order = rng.permutation(len(x))
    for at in range(0, len(x), args.batch_size):
        batch = order[at:at + args.batch_size]
        model.partial_fit(x[batch], y[batch], classes=[0, 1])
        steps += 1
        truth.at(steps, steps * args.batch_size / len(x), steps * args.batch_size)
    if args.verbose:
        print(f"epoch {epoch + 1}/{args.n_epochs}: accuracy {model.score(x[:5000], y[:5000]):.4f}")
