from xgboost.training import train


def fit():
    return train({}, None, num_boost_round=7)
