import argparse
import os

import torch

parser = argparse.ArgumentParser(description="distributed training")
parser.add_argument("total_epochs", type=int, help="total epochs to train")
parser.add_argument("save_every", type=int)
parser.add_argument("--batch_size", default=32, type=int)


class Loop:
    def __init__(self, model, snapshot_path):
        self.model = model
        self.epochs_run = 0
        if os.path.exists(snapshot_path):
            self._load_snapshot(snapshot_path)

    def _load_snapshot(self, snapshot_path):
        snapshot = torch.load(snapshot_path)
        self.model.load_state_dict(snapshot["MODEL_STATE"])
        self.epochs_run = snapshot["EPOCHS_RUN"]

    def save(self, epoch):
        torch.save({"MODEL_STATE": self.model.state_dict(), "EPOCHS_RUN": epoch}, "snapshot.pt")
