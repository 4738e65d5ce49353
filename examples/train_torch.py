#!/usr/bin/env python3
"""Trains a small convolutional network on generated images with PyTorch, on CPU or GPUs.

Ten classes of 16x16 images: a smooth pattern of the class, shifted at random, with noise. Uses every
visible GPU (DataParallel for several), else CPU threads. The same log, checkpoints and signals as
train_digits.py:

  OMP_NUM_THREADS           CPU threads
  OPTIMIZER_EPOCHS, OPTIMIZER_BATCH_SIZE, OPTIMIZER_RANDOM_SEED
  OPTIMIZER_NUM_WORKERS     data-loader processes (0: load in the main process)
  OPTIMIZER_PIN_MEMORY      true: pinned host memory for copies to a GPU
  OPTIMIZER_LOG             the CSV to write, one row an epoch; else ./log-shapes-cnn.csv
  OPTIMIZER_CHECKPOINT_DIR  where checkpoint.pt goes; else ./checkpoint-shapes-cnn
  OPTIMIZER_RESUME          1: go on from the checkpoint, if there is one

SIGUSR1, SIGTERM and SIGINT: save at the next mini-batch and leave with exit code 75.
"""
import os
import signal
import sys

EXIT_SAVED = 75  # EX_TEMPFAIL: stopped on request, a checkpoint is there
SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)
_stop = False


def request_stop(signum, frame):
    global _stop
    _stop = True


if __name__ == "__main__":
    for s in SIGNALS:
        signal.signal(s, request_stop)  # before torch is imported, which takes seconds

import argparse
import csv
import time

try:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset
except ImportError:
    sys.exit("train_torch: this Python (%s) has no torch; install python3-torch or choose another interpreter" % sys.executable)

MODEL = "shapes-cnn"
CLASSES, SIZE = 10, 16


# ---- data ----

class Shapes(Dataset):
    """count images, each made when asked for from (seed, index) alone, so that loader workers do real work."""

    def __init__(self, count, seed, offset):
        g = torch.Generator().manual_seed(seed)
        coarse = torch.randn(CLASSES, 1, 4, 4, generator=g)
        self.patterns = nn.functional.interpolate(coarse, size=(SIZE, SIZE), mode="bilinear", align_corners=False)
        self.count, self.base = count, seed * 1000003 + offset

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.base + i)
        shift = torch.randint(-2, 3, (2,), generator=g).tolist()
        image = torch.roll(self.patterns[i % CLASSES], shifts=shift, dims=(1, 2))
        return image + 1.6 * torch.randn(1, SIZE, SIZE, generator=g), i % CLASSES


def ignore_signals(_):
    for s in SIGNALS:
        signal.signal(s, signal.SIG_IGN)  # loader workers: the main process decides when to leave


def batches(dataset, indices, args, device):
    """Loads the images of indices, in that order, in mini-batches."""
    cut = [indices[i:i + args.batch_size] for i in range(0, len(indices), args.batch_size)]
    return DataLoader(dataset, batch_sampler=cut, num_workers=args.num_workers, worker_init_fn=ignore_signals,
                      pin_memory=args.pin_memory and device.type == "cuda")


# ---- network ----

def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * (SIZE // 4) ** 2, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def evaluate(net, dataset, args, device):
    """Returns (mean loss, share right), or None when a stop was requested meanwhile."""
    net.eval()
    loss, right = 0.0, 0
    with torch.no_grad():
        for x, y in batches(dataset, list(range(len(dataset))), args, device):
            if _stop:
                return None
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            z = net(x)
            loss += nn.functional.cross_entropy(z, y, reduction="sum").item()
            right += (z.argmax(1) == y).sum().item()
    return loss / len(dataset), right / len(dataset)


# ---- what it leaves: log and checkpoint ----

class Log:
    """The CSV, one row an epoch. A restarted run keeps the columns that the file has."""

    def __init__(self, path, keep, columns):
        self.columns, self.last = columns, 0
        kept = keep and os.path.exists(path) and os.path.getsize(path) > 0
        if kept:
            with open(path, newline="") as f:
                reader = csv.DictReader(f)
                self.columns = reader.fieldnames
                self.last = max([int(r["epoch"]) for r in reader if (r.get("epoch") or "").isdigit()], default=0)
        self.file = open(path, "a" if kept else "w", newline="")
        self.writer = csv.DictWriter(self.file, self.columns, restval="", extrasaction="ignore", lineterminator="\n")
        if not kept:
            self.writer.writeheader()
            self.file.flush()

    def write(self, row):
        if row["epoch"] > self.last:
            self.writer.writerow(row)
            self.file.flush()


def save(directory, state):
    """Writes the checkpoint so that a crash leaves the old one or the new one, never half."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "checkpoint.pt")
    with open(path + ".tmp", "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)


def load(directory):
    path = os.path.join(directory, "checkpoint.pt")
    return torch.load(path, map_location="cpu") if os.path.exists(path) else None


def process_tree():
    """This process and its children (the loader workers)."""
    pids = [os.getpid()]
    for task in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/children" % task) as f:
                pids += [int(p) for p in f.read().split()]
        except OSError:
            pass
    return pids


def memory_gb():
    """Proportional host memory of the process tree in GB (10^9 bytes), "" when unknown."""
    total = 0
    try:
        for pid in process_tree():
            with open("/proc/%d/smaps_rollup" % pid) as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    except OSError:
        return ""
    return round(total * 1024 / 1e9, 4)


def gpu_columns(gpus):
    """GPU readings that this machine really gives; a reading that it does not give has no column."""
    if not gpus:
        return {}
    row = {"gpu_memory_used_gb": round(sum(torch.cuda.memory_reserved(i) for i in range(gpus)) / 1e9, 4)}
    for i in range(gpus):
        try:
            row["gpu_utilization_%d" % i] = torch.cuda.utilization(i)
        except Exception:  # no pynvml, no NVML, a driver that does not say
            pass
    return row


# ---- the training ----

def whole(name, default):
    try:
        return int(os.environ.get(name, ""))
    except ValueError:
        return default


def parse_args():
    env = os.environ.get
    p = argparse.ArgumentParser(description="train a small CNN on generated images")
    p.add_argument("--epochs", type=int, default=whole("OPTIMIZER_EPOCHS", 12))
    p.add_argument("--batch-size", type=int, default=whole("OPTIMIZER_BATCH_SIZE", 128))
    p.add_argument("--seed", type=int, default=whole("OPTIMIZER_RANDOM_SEED", 1) % 2**31)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--samples", type=int, default=8000, help="training images")
    p.add_argument("--threads", type=int, default=whole("OMP_NUM_THREADS", len(os.sched_getaffinity(0))))
    p.add_argument("--num-workers", type=int, default=whole("OPTIMIZER_NUM_WORKERS", 0))
    p.add_argument("--pin-memory", action="store_true", default=env("OPTIMIZER_PIN_MEMORY", "").lower() in ("1", "true"))
    p.add_argument("--log", default=env("OPTIMIZER_LOG") or "log-%s.csv" % MODEL)
    p.add_argument("--checkpoint-dir", default=env("OPTIMIZER_CHECKPOINT_DIR") or "checkpoint-%s" % MODEL)
    p.add_argument("--resume", action="store_true", default=env("OPTIMIZER_RESUME") == "1")
    return p.parse_args()


class Training:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        torch.set_num_threads(max(1, args.threads))
        self.gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        self.device = torch.device("cuda" if self.gpus else "cpu")
        self.model = build_model().to(self.device)
        self.net = nn.DataParallel(self.model) if self.gpus > 1 else self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
        self.train_set = Shapes(args.samples, args.seed, 0)
        self.test_set = Shapes(max(500, args.samples // 8), args.seed, 500_000_000)
        # position: samples of the current epoch that are done; loss and right: their sums
        self.at = {"seed": args.seed, "samples": args.samples, "epoch": 1, "position": 0,
                   "loss": 0.0, "right": 0, "epoch_seconds": 0.0, "seconds": 0.0}
        state = load(args.checkpoint_dir) if args.resume else None
        if state:
            if (state["at"]["seed"], state["at"]["samples"]) != (args.seed, args.samples):
                sys.exit("train_torch: the checkpoint in %s is of another run" % args.checkpoint_dir)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.at = state["at"]

    def save(self):
        save(self.args.checkpoint_dir, {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "at": self.at})

    def epoch(self):
        """Goes on from the saved position to the end of the epoch; False when a stop was requested before."""
        at = self.at
        g = torch.Generator().manual_seed(self.args.seed * 1000003 + at["epoch"])
        order = torch.randperm(self.args.samples, generator=g).tolist()[at["position"]:]
        self.net.train()
        for x, y in batches(self.train_set, order, self.args, self.device):
            if _stop:
                return False
            x, y = x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)
            z = self.net(x)
            loss = nn.functional.cross_entropy(z, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            at["position"] += len(y)
            at["loss"] += loss.item() * len(y)
            at["right"] += (z.argmax(1) == y).sum().item()
        return True

    def row(self, test, cpu_percent):
        a, at = self.args, self.at
        return {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "epoch": at["epoch"], "total_epochs": a.epochs, "model_name": MODEL,
            "model_params": sum(p.numel() for p in self.model.parameters()),
            "model_layers": sum(isinstance(m, (nn.Conv2d, nn.Linear)) for m in self.model),
            "dataset": "generated-shapes", "data_count": a.samples, "data_size_mb": round(a.samples * SIZE * SIZE * 4 / 1e6, 3),
            "batch_size": a.batch_size, "device_type": self.device.type, "cpu_count": a.threads, "gpu_count": self.gpus,
            "train_loss": round(at["loss"] / a.samples, 6), "train_accuracy": round(at["right"] / a.samples, 6),
            "test_loss": round(test[0], 6), "test_accuracy": round(test[1], 6),
            "epoch_time": round(at["epoch_seconds"], 6), "time_so_far": round(at["seconds"], 6),
            "throughput": round(a.samples / at["epoch_seconds"], 3),
            "memory_used_gb": memory_gb(), "cpu_percent": cpu_percent, **gpu_columns(self.gpus),
        }

    def run(self):
        at, args, logfile = self.at, self.args, None
        began, cpu = time.monotonic(), sum(os.times()[:4])
        while at["epoch"] <= args.epochs:
            test = self.epoch() and evaluate(self.net, self.test_set, args, self.device)
            now, cpu_now = time.monotonic(), sum(os.times()[:4])
            at["epoch_seconds"] += now - began
            if not test:
                self.save()
                print("saved in epoch %d after %d of %d samples" % (at["epoch"], at["position"], args.samples), flush=True)
                return EXIT_SAVED
            at["seconds"] += at["epoch_seconds"]
            row = self.row(test, round(100 * (cpu_now - cpu) / (now - began) / max(1, args.threads), 1))
            began, cpu = now, cpu_now
            logfile = logfile or Log(args.log, args.resume, list(row))
            logfile.write(row)
            print("epoch %d/%d  loss %.4f  test accuracy %.4f  %.2f s" % (
                at["epoch"], args.epochs, row["train_loss"], row["test_accuracy"], row["epoch_time"]), flush=True)
            at.update(epoch=at["epoch"] + 1, position=0, loss=0.0, right=0, epoch_seconds=0.0)
            self.save()
        return 0


if __name__ == "__main__":
    sys.exit(Training(parse_args()).run())
