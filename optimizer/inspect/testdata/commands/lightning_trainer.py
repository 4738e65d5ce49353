import lightning as L

trainer = L.Trainer(max_epochs=7, accelerator="cpu")
trainer.fit(model, data, ckpt_path="last")
