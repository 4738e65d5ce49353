"""Lightning module and data of lightning_fit.py and lightning_cli.py."""
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import truth


class LitAutoEncoder(L.LightningModule):
    def __init__(self, hidden_dim: int = 128, learning_rate: float = 1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(28 * 28, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, 3))
        self.decoder = nn.Sequential(nn.Linear(3, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, 28 * 28))

    def training_step(self, batch, batch_idx):
        loss = self._loss(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self._loss(batch), prog_bar=True)

    def _loss(self, batch):
        x = batch[0].view(batch[0].size(0), -1)
        return nn.functional.mse_loss(self.decoder(self.encoder(x)), x)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)


class Images(L.LightningDataModule):
    def __init__(self, batch_size: int = 32, samples: int = 4096):
        super().__init__()
        self.batch_size, self.samples = batch_size, samples

    def setup(self, stage):
        generator = torch.Generator().manual_seed(2)
        self.train, self.val = (TensorDataset(torch.rand(n, 1, 28, 28, generator=generator)) for n in (self.samples, 256))

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=self.batch_size)


class Count(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        truth.at(trainer.global_step, trainer.global_step / trainer.num_training_batches, trainer.global_step * batch[0].size(0))
