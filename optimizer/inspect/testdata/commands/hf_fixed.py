from transformers import Trainer, TrainingArguments

args = TrainingArguments(output_dir="out", num_train_epochs=5, max_steps=120, per_device_train_batch_size=4)
Trainer(model=None, args=args).train()
