"""Logistic regression in standard-library Python: `--report print|none|csv`, the first --slow-epochs take four times as long."""
import argparse
import math
import random

import truth


def train_epoch(weights, rows, rate):
    loss = 0.0
    for features, label in rows:
        p = 1 / (1 + math.exp(-sum(w * f for w, f in zip(weights, features))))
        loss -= math.log(max(p if label else 1 - p, 1e-9))
        for i, f in enumerate(features):
            weights[i] += rate * (label - p) * f
    return loss / len(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--report", choices=["print", "none", "csv"], default="print")
    parser.add_argument("--csv", default="metrics.csv", help="file of --report csv")
    parser.add_argument("--slow-epochs", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(2)
    rows = [([rng.gauss(0, 1) for _ in range(20)], rng.random() < 0.5) for _ in range(16000)]
    weights = [0.0] * 20
    if args.report == "csv":
        with open(args.csv, "w") as f:
            f.write("epoch,total_epochs,data_count,train_loss\n")
    for epoch in range(1, args.epochs + 1):
        for _ in range(4 if epoch <= args.slow_epochs else 1):
            loss = train_epoch(weights, rows, 0.01)
        truth.at(epoch, epoch, epoch * len(rows))
        if args.report == "print":
            print(f"Epoch {epoch}/{args.epochs} - loss: {loss:.4f}")
        elif args.report == "csv":
            with open(args.csv, "a") as f:
                f.write(f"{epoch},{args.epochs},{len(rows)},{loss:.5f}\n")


if __name__ == "__main__":
    main()
