import xgboost as xgb, numpy as np
params = {"tree_method": "gpu_hist", "max_depth": 6}
def train(rounds=50):
    x = np.random.rand(1000, 5)
    return xgb.train(params, xgb.DMatrix(x, x[:, 0]), rounds)
def train_fold(i): return train(10)
if __name__ == "__main__":
    booster = train()
