import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
loader = DataLoader(TensorDataset(torch.randn(128, 8), torch.randn(128, 1)), batch_size=8, shuffle=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    accelerator.save_state("state_%d" % epoch)
