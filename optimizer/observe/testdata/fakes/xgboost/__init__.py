__version__ = "9.9"
from xgboost import callback
from xgboost.training import train
from xgboost import sklearn
