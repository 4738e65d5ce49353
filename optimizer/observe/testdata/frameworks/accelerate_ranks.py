import sys

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(128):
            yield torch.full((8,), i / 128), torch.ones(1)


split = sys.argv[1] == "split"
data = TensorDataset(torch.randn(128, 8), torch.randn(128, 1)) if split else Stream()
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=split))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8))
for epoch in range(3):
    for x, y in loader:
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
