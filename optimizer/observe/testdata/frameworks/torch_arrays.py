import math

import torch

torch.manual_seed(0)
data = torch.randn(4096, 16)
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.AdamW(model.parameters())
for iteration in range(300):
    batch = data[torch.randint(4096, (12,))]
    loss = (model(batch) - batch).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if (iteration + 1) % 100 == 0:
        torch.save({"model": model.state_dict(), "iteration": iteration}, "ckpt.pt")
assert math.isfinite(loss.item())
