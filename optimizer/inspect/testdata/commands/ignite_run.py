import torch
from ignite.engine import create_supervised_evaluator, create_supervised_trainer
from torch.optim.lr_scheduler import OneCycleLR

trainer = create_supervised_trainer(model, optimizer, loss)
schedule = OneCycleLR(optimizer, max_lr=0.1, epochs=60, steps_per_epoch=10)
plot_history(trainer, epochs=3)
evaluator = create_supervised_evaluator(model)
evaluator.run(validation, max_epochs=1)
trainer.run(loader, max_epochs=6)
