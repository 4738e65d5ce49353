"""Training loop with Lightning Fabric and a checkpoint after each epoch."""
import argparse

import torch
import torch.nn.functional as F
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

import truth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--resume", default="", help="checkpoint to continue from")
    args = parser.parse_args()
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    fabric.seed_everything(6)
    inputs = torch.randn(8192, 256)
    data = TensorDataset(inputs, inputs[:, :10].argmax(dim=1))
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=args.batch_size, shuffle=True))
    state = {"model": model, "optimizer": optimizer, "epoch": 0}
    if args.resume:
        fabric.load(args.resume, state)
    for epoch in range(state["epoch"], args.epochs):
        for step, (source, target) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(source), target)
            fabric.backward(loss)
            optimizer.step()
            done = epoch * len(loader) + step + 1
            truth.at(done, done / len(loader), done * args.batch_size)
        fabric.print(f"epoch {epoch}: loss {loss.item():.4f}")
        state["epoch"] = epoch + 1
        fabric.save("fabric.ckpt", state)


if __name__ == "__main__":
    main()
