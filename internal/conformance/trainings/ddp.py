"""Data-parallel training with snapshots, in the shape of PyTorch's fault-tolerant torchrun tutorial (gloo, CPU)."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import truth


class Trainer:
    def __init__(self, model, loader, optimizer, save_every, snapshot_path):
        self.rank = int(os.environ["RANK"])
        self.model, self.loader, self.optimizer = model, loader, optimizer
        self.save_every, self.snapshot_path, self.epochs_run = save_every, snapshot_path, 0
        if os.path.exists(snapshot_path):
            snapshot = torch.load(snapshot_path)
            self.model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
            print(f"Resuming training from snapshot at Epoch {self.epochs_run}")
        self.model = DDP(self.model)

    def _run_epoch(self, epoch):
        size = self.loader.batch_size
        print(f"[rank {self.rank}] Epoch {epoch} | Batchsize: {size} | Steps: {len(self.loader)}")
        self.loader.sampler.set_epoch(epoch)
        for batch, (source, targets) in enumerate(self.loader):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(source), targets).backward()
            self.optimizer.step()
            if self.rank == 0:
                done = epoch * len(self.loader) + batch + 1
                truth.at(done, done / len(self.loader), done * size * dist.get_world_size())

    def _save_snapshot(self, epoch):
        torch.save({"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch + 1}, self.snapshot_path + ".tmp")
        os.replace(self.snapshot_path + ".tmp", self.snapshot_path)
        print(f"Epoch {epoch} | Training snapshot saved at {self.snapshot_path}")

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            self._run_epoch(epoch)
            if self.rank == 0 and (epoch + 1) % self.save_every == 0:
                self._save_snapshot(epoch)


def main():
    parser = argparse.ArgumentParser(description='simple distributed training job')
    parser.add_argument('total_epochs', type=int, help='Total epochs to train the model')
    parser.add_argument('save_every', type=int, help='How often to save a snapshot')
    parser.add_argument('--batch_size', default=32, type=int, help='Input batch size on each device (default: 32)')
    args = parser.parse_args()
    dist.init_process_group(backend="gloo")
    torch.manual_seed(0)
    inputs = torch.randn(8192, 256)
    data = TensorDataset(inputs, inputs[:, :10].argmax(dim=1))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=False, sampler=DistributedSampler(data))
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    Trainer(model, loader, torch.optim.SGD(model.parameters(), lr=1e-2), args.save_every, "snapshot.pt").train(args.total_epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
