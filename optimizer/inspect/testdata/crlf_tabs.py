import torch
with torch.no_grad():
	EPOCHS = 6
