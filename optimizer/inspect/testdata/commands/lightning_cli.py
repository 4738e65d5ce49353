from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningCLI


class Digits(LightningDataModule):
    def __init__(self, batch_size: int = 32, num_workers: int = 2):
        super().__init__()
        self.batch_size = batch_size


class Net(LightningModule):
    pass


if __name__ == "__main__":
    LightningCLI(Net, Digits)
