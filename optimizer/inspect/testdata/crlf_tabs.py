import torch
if True:
	EPOCHS = 6
