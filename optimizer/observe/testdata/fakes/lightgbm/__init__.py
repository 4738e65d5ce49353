__version__ = "9.9"
from lightgbm import callback
from lightgbm.engine import train
