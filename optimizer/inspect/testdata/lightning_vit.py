import pytorch_lightning as pl
import timm
import torch
from torchvision import datasets as D


class Classifier(pl.LightningModule):
    def __init__(self, lr: float = 1e-3):
        super().__init__()
        self.net = timm.create_model("vit_base_patch16_224", num_classes=10)

    def training_step(self, batch, i):
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])


class Data(pl.LightningDataModule):
    def __init__(self, batch_size: int = 48):
        self.batch_size = batch_size

    def train_dataloader(self):
        return torch.utils.data.DataLoader(D.CIFAR100("."), batch_size=self.batch_size)


def cli():
    trainer = pl.Trainer(max_epochs=20, accelerator="gpu", devices=2)
    trainer.fit(Classifier(), Data())


cli()
