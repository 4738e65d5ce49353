"""Gradient boosting through the scikit-learn interfaces of XGBoost and LightGBM."""
import argparse

import numpy as np

import truth


def xgboost_model(rounds):
    import xgboost as xgb

    class Count(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            truth.at(epoch + 1, 0)
            return False

    return xgb.XGBClassifier(n_estimators=rounds, max_depth=8, learning_rate=0.1, tree_method="hist", callbacks=[Count()]), {}


def lightgbm_model(rounds):
    import lightgbm as lgb

    return lgb.LGBMClassifier(n_estimators=rounds, num_leaves=127, learning_rate=0.05, verbose=-1), {"callbacks": [lambda env: truth.at(env.iteration + 1, 0)]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["xgboost", "lightgbm"])
    parser.add_argument("--n_estimators", type=int, default=800)
    args = parser.parse_args()
    rng = np.random.default_rng(12)
    x = rng.normal(size=(48000, 40)).astype("float32")
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0.3).astype(int)
    model, options = {"xgboost": xgboost_model, "lightgbm": lightgbm_model}[args.library](args.n_estimators)
    model.fit(x, y, **options)
    print(f"accuracy {model.score(x[:5000], y[:5000]):.4f}")


if __name__ == "__main__":
    main()
