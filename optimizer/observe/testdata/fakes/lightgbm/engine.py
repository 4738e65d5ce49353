from types import SimpleNamespace

from lightgbm.callback import EarlyStopException


class Booster:
    best_iteration = 0

    def save_model(self, path):
        with open(path, "w") as f:
            f.write("model")


def train(params, train_set, num_boost_round=100, valid_sets=None, callbacks=None, pause=0):
    import time

    model = Booster()
    for i in range(3, 3 + num_boost_round):
        time.sleep(pause)
        try:
            for c in sorted(callbacks or [], key=lambda c: c.order):
                c(SimpleNamespace(model=model, iteration=i, begin_iteration=3, end_iteration=3 + num_boost_round,
                                  evaluation_result_list=[("training", "l2", 0.5, False), ("valid_0", "l2", 0.75, False)]))
        except EarlyStopException as e:
            model.best_iteration = e.best_iteration + 1
            break
    return model
