import torch
from mymodels import build
net = build("x")
