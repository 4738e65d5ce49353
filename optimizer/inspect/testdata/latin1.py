# -*- coding: latin-1 -*-
# réseau
import torch
nom = "café"
BATCH_SIZE = 9
