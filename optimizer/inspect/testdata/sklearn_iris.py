# uses no GPU: .cuda() would not work, torch is not needed
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
frame = pd.read_csv("train-log.csv")
x, y = load_iris(return_X_y=True)
RandomForestClassifier(n_estimators=100).fit(x, y)
