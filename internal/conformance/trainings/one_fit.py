"""Estimators of scikit-learn that are trained by one silent call of fit."""
import argparse

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neural_network import MLPClassifier

import truth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("estimator", choices=["boosting", "mlp"])
    parser.add_argument("--max_iter", type=int, default=400)
    args = parser.parse_args()
    rng = np.random.default_rng(13)
    x = rng.normal(size=(20000, 40))
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0.3).astype(int)
    if args.estimator == "boosting":
        model = HistGradientBoostingClassifier(max_iter=args.max_iter, early_stopping=False)
    else:
        model = MLPClassifier(hidden_layer_sizes=(64,), max_iter=args.max_iter, n_iter_no_change=args.max_iter, tol=0)
    truth.at(0, 0)
    model.fit(x, y)
    print(f"accuracy {model.score(x[:5000], y[:5000]):.4f}")


if __name__ == "__main__":
    main()
