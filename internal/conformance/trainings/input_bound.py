"""Small network behind a slow transform, loaded in the training process itself unless --num-workers says otherwise."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import truth


class Pictures(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        picture = np.random.default_rng(i).normal(size=(64, 64)).astype("float32")
        spectrum = picture
        for _ in range(20):
            spectrum = np.abs(np.fft.fft2(spectrum)).astype("float32") / 64
        return torch.from_numpy(spectrum), i % 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--num-workers", type=int, default=0)
    args = parser.parse_args()
    loader = DataLoader(Pictures(1024), batch_size=32, shuffle=True, num_workers=args.num_workers)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64 * 64, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters())
    done = 0
    for epoch in range(args.epochs):
        for data, target in loader:
            loss = nn.functional.cross_entropy(model(data), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            truth.at(done, done / len(loader), done * 32)
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
