"""Autoencoder trained by a Lightning Trainer, with a checkpoint after each epoch."""
import argparse

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint

from lightning_model import Count, Images, LitAutoEncoder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_epochs", type=int, default=40)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--ckpt_path", default=None)
    args = parser.parse_args()
    L.seed_everything(1)
    trainer = L.Trainer(max_epochs=args.max_epochs, accelerator="cpu", logger=L.pytorch.loggers.CSVLogger("."),
                        callbacks=[ModelCheckpoint(dirpath="checkpoints", save_last=True, save_top_k=1), Count()])
    trainer.fit(LitAutoEncoder(), datamodule=Images(args.batch_size), ckpt_path=args.ckpt_path)


if __name__ == "__main__":
    main()
