from lightning.pytorch.callbacks.callback import Callback


class Checkpoint(Callback):
    pass
