import xgboost as xgb

xgb.train({"max_depth": 3}, data)
