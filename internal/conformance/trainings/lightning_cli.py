"""The autoencoder under LightningCLI: lightning_cli.py fit --trainer.max_epochs=N."""
from lightning.pytorch.cli import LightningCLI

from lightning_model import Count, Images, LitAutoEncoder


def main():
    LightningCLI(LitAutoEncoder, Images, seed_everything_default=1234, save_config_kwargs={"overwrite": True},
                 trainer_defaults={"accelerator": "cpu", "max_epochs": 40, "callbacks": [Count()]})


if __name__ == "__main__":
    main()
