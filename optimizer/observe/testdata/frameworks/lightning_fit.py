import importlib
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

L = importlib.import_module(sys.argv[1])


class Regression(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.layer(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
data = TensorDataset(torch.randn(320, 8), torch.randn(320, 1))
trainer = L.Trainer(max_epochs=int(sys.argv[2]), accelerator="cpu", logger=False, enable_progress_bar=False, num_sanity_val_steps=2)
trainer.fit(Regression(), DataLoader(data, batch_size=32, shuffle=True), DataLoader(data, batch_size=64), ckpt_path=sys.argv[3] if len(sys.argv) > 3 else None)
print("ended at step", trainer.global_step)
