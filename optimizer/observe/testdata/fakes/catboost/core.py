"""Stands in for CatBoost in tests: _train calls the callbacks among its parameters, and rejects them on a GPU."""
from types import SimpleNamespace


class Info:
    def __init__(self, iteration):
        self.iteration, self.metrics = iteration, {"learn": {"Logloss": [1 / i for i in range(1, iteration + 1)]}}


class CatBoost:
    def __init__(self, params):
        self.params = params

    def fit(self, rows=20, tests=0):
        self._train(SimpleNamespace(num_row=lambda: rows, num_col=lambda: 10), [None] * tests, dict(self.params), False, None)

    def _train(self, train_pool, test_pool, params, allow_clear_pool, init_model):
        callbacks = params.get("callbacks")
        assert callbacks is None or params.get("task_type") != "GPU"
        for i in range(params["iterations"]):
            if callbacks is not None and not callbacks.after_iteration(Info(i + 1)):
                break
