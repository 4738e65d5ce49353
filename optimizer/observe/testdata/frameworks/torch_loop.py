import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images, labels = torch.randn(1000, 20), torch.randint(0, 3, (1000,))
train = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
test = DataLoader(TensorDataset(images[:100], labels[:100]), batch_size=50)
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(4):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        correct = sum((model(x).argmax(1) == y).sum().item() for x, y in test)
    torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")
print("loss", loss.item(), "correct", correct)
