"""Gradient boosting with xgboost.train; prints an evaluation each round unless --silent."""
import argparse

import numpy as np
import xgboost as xgb

import truth


class Count(xgb.callback.TrainingCallback):
    def __init__(self, rows):
        self.rows = rows

    def after_iteration(self, model, epoch, evals_log):
        truth.at(epoch + 1, 0, (epoch + 1) * self.rows)
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-boost-round", type=int, default=800)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--nthread", type=int, default=0, help="0: all")
    args = parser.parse_args()
    rng = np.random.default_rng(6)
    x = rng.normal(size=(args.rows, 40)).astype("float32")
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0.3).astype(int)
    cut = args.rows * 4 // 5
    train, test = xgb.DMatrix(x[:cut], y[:cut]), xgb.DMatrix(x[cut:], y[cut:])
    parameters = {"objective": "binary:logistic", "max_depth": 8, "eta": 0.1, "eval_metric": "logloss", "tree_method": "hist"}
    if args.nthread:
        parameters["nthread"] = args.nthread
    booster = xgb.train(parameters, train, args.num_boost_round, evals=[(train, "train"), (test, "test")],
                        verbose_eval=not args.silent, callbacks=[Count(cut)])
    booster.save_model("model.json")


if __name__ == "__main__":
    main()
