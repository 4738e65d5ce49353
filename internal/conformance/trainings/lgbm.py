"""Gradient boosting with lightgbm.train, which prints only its preparation."""
import argparse

import lightgbm as lgb
import numpy as np

import truth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_boost_round", type=int, default=1200)
    parser.add_argument("--log_evaluation", type=int, default=0, help="print the metric each N rounds; 0: never")
    args = parser.parse_args()
    rng = np.random.default_rng(8)
    x = rng.normal(size=(60000, 40))
    y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.1 * rng.normal(size=len(x))
    train = lgb.Dataset(x[:48000], y[:48000])
    test = lgb.Dataset(x[48000:], y[48000:], reference=train)
    callbacks = [lambda env: truth.at(env.iteration + 1, 0, (env.iteration + 1) * 48000)]
    if args.log_evaluation:
        callbacks.append(lgb.log_evaluation(args.log_evaluation))
    booster = lgb.train({"objective": "regression", "num_leaves": 127, "learning_rate": 0.05, "metric": "l2"}, train,
                        num_boost_round=args.num_boost_round, valid_sets=[test], callbacks=callbacks)
    booster.save_model("model.txt")


if __name__ == "__main__":
    main()
