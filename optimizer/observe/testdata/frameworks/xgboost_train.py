import numpy as np
import xgboost as xgb

rng = np.random.default_rng(0)
x, y = rng.normal(size=(400, 8)), rng.integers(0, 2, 400)
train, test = xgb.DMatrix(x[:300], y[:300]), xgb.DMatrix(x[300:], y[300:])
params = {"objective": "binary:logistic", "eval_metric": "logloss", "nthread": 1}
model = xgb.train(params, train, num_boost_round=40, evals=[(train, "train"), (test, "test")], verbose_eval=False)
xgb.XGBClassifier(n_estimators=25, n_jobs=1).fit(x, y)
