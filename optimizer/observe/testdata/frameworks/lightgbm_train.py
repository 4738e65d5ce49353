import lightgbm as lgb
import numpy as np

rng = np.random.default_rng(0)
x, y = rng.normal(size=(400, 8)), rng.normal(size=400)
train = lgb.Dataset(x[:300], y[:300])
test = lgb.Dataset(x[300:], y[300:], reference=train)
lgb.train({"objective": "regression", "metric": "l2", "verbose": -1, "num_threads": 1}, train, num_boost_round=20, valid_sets=test)
lgb.LGBMRegressor(n_estimators=15, verbose=-1, n_jobs=1).fit(x, y)
