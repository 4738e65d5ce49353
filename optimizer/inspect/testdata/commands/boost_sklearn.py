from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression

LogisticRegression(max_iter=1000).fit(x, y)
LGBMClassifier(n_estimators=150).fit(x, y)
