#!/usr/bin/env python3
"""A training script as people write them: one process, standard library, progress on stdout only.

Softmax regression on generated points of five classes. It writes no log file, saves nothing, and
takes nothing from its environment; a tool around it has only what it prints.
"""
import argparse
import random
import time
from math import exp, log
from operator import mul

CLASSES, FEATURES = 5, 20


def make_points(rng, count, centres):
    points, labels = [], []
    for _ in range(count):
        y = rng.randrange(CLASSES)
        points.append([c + rng.gauss(0.0, 1.0) for c in centres[y]] + [1.0])
        labels.append(y)
    return points, labels


def probabilities(weights, x):
    z = [sum(map(mul, row, x)) for row in weights]
    top = max(z)
    e = [exp(v - top) for v in z]
    s = sum(e)
    return [v / s for v in e]


def train_one_epoch(weights, points, labels, lr):
    """One pass of stochastic gradient descent over the points; returns (mean loss, accuracy)."""
    loss, right = 0.0, 0
    for x, y in zip(points, labels):
        p = probabilities(weights, x)
        loss -= log(max(p[y], 1e-300))
        right += p[y] == max(p)
        p[y] -= 1.0
        for k, d in enumerate(p):
            weights[k] = [w - lr * d * v for w, v in zip(weights[k], x)]
    return loss / len(points), right / len(points)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--points", type=int, default=25000)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    rng = random.Random(args.seed)
    centres = [[rng.gauss(0.0, 0.7) for _ in range(FEATURES)] for _ in range(CLASSES)]
    points, labels = make_points(rng, args.points, centres)
    weights = [[0.0] * (FEATURES + 1) for _ in range(CLASSES)]
    began = time.monotonic()
    for epoch in range(1, args.epochs + 1):
        loss, acc = train_one_epoch(weights, points, labels, args.lr)
        print("Epoch %d/%d loss %.3f acc %.3f" % (epoch, args.epochs, loss, acc), flush=True)
    print("trained in %.1f s" % (time.monotonic() - began))


if __name__ == "__main__":
    main()
