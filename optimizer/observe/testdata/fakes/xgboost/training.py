class Booster:
    def save_model(self, path):
        with open(path, "w") as f:
            f.write("model")


def train(params, dtrain, num_boost_round=10, *, evals=None, callbacks=None, pause=0):
    import time

    model = Booster()
    for i in range(num_boost_round):
        time.sleep(pause)
        log = {"train": {"logloss": [1 / (i + 1)]}, "test": {"logloss": [2 / (i + 1)]}}
        if any(c.after_iteration(model, i, log) for c in callbacks or []):
            break
    return model
