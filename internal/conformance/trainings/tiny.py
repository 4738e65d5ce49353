"""Many steps of a model so small that a second thread costs more than it gives."""
import argparse

import torch
from torch import nn

import truth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8000)
    args = parser.parse_args()
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(512, 128)
    y = x[:, :1] * x[:, 1:2]
    for step in range(1, args.steps + 1):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.at(step, 0, step * len(x))
        if step % 500 == 0:
            print(f"step {step}/{args.steps} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
