import sys

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(n)
        self.ids = torch.randint(0, 100, (n, 16), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i, 0] % 2}


model = BertForSequenceClassification(BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32))
epochs = float(sys.argv[1]) if len(sys.argv) > 1 else 3
args = TrainingArguments(output_dir="out", num_train_epochs=epochs, per_device_train_batch_size=8, gradient_accumulation_steps=2,
                         eval_strategy="epoch", save_strategy="epoch", logging_steps=5, report_to="none", disable_tqdm=True, use_cpu=True)
trainer = Trainer(model=model, args=args, train_dataset=Sentences(160), eval_dataset=Sentences(40))
trainer.train(resume_from_checkpoint=sys.argv[2] if len(sys.argv) > 2 else None)
