import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(256, 8), torch.randn(256, 1)), batch_size=8)
model = torch.nn.Linear(8, 1)


class Clipped(torch.optim.SGD):  # a subclass whose step calls the base class's
    def step(self, closure=None):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return super().step(closure)


other = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
optimizer = Clipped(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        (torch.nn.functional.mse_loss(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
