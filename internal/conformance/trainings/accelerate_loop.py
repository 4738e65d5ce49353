"""Training loop with Accelerate and a checkpoint after each epoch, in the shape of its complete_nlp_example."""
import argparse
import os

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm

import truth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_train_epochs", type=int, default=24)
    parser.add_argument("--per_device_train_batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--output_dir", default="accelerate_out")
    parser.add_argument("--resume_from_checkpoint", default=None, help="folder of a saved state")
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(5)
    inputs = torch.randn(4096, 64, 16)
    data = TensorDataset(inputs, inputs[:, :8, 0].argmax(dim=1))
    loader = DataLoader(data, shuffle=True, batch_size=args.per_device_train_batch_size)
    model = torch.nn.Sequential(torch.nn.Conv1d(64, 96, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(96 * 14, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    total = args.num_train_epochs * len(loader)
    bar = tqdm(range(total), disable=not accelerator.is_local_main_process)
    starting_epoch = 0
    if args.resume_from_checkpoint:
        accelerator.load_state(args.resume_from_checkpoint)
        starting_epoch = int(os.path.basename(args.resume_from_checkpoint.rstrip("/")).removeprefix("epoch_")) + 1
        bar.update(starting_epoch * len(loader))
    for epoch in range(starting_epoch, args.num_train_epochs):
        model.train()
        for step, (source, target) in enumerate(loader):
            accelerator.backward(F.cross_entropy(model(source), target))
            optimizer.step()
            optimizer.zero_grad()
            bar.update(1)
            done = epoch * len(loader) + step + 1
            truth.at(done, done / len(loader), done * args.per_device_train_batch_size)
        accelerator.save_state(os.path.join(args.output_dir, f"epoch_{epoch}"))
    accelerator.print("training finished")


if __name__ == "__main__":
    main()
