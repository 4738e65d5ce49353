"""Sequence classification with a Hugging Face Trainer on a small BERT built from its configuration."""
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, HfArgumentParser, Trainer, TrainerCallback, TrainingArguments

import truth


class Sentences(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 1000, (count, 48), generator=generator)
        self.labels = (self.ids[:, :4].sum(dim=1) > 2000).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(48, dtype=torch.long), "labels": self.labels[i]}


class Count(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        truth.at(state.global_step, state.epoch, state.global_step * args.per_device_train_batch_size * args.gradient_accumulation_steps)


def main():
    args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(sys.argv[1:])
    model = BertForSequenceClassification(BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, max_position_embeddings=64))
    trainer = Trainer(model=model, args=args, train_dataset=Sentences(1024, 1), eval_dataset=Sentences(128, 2), callbacks=[Count()])
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model()


if __name__ == "__main__":
    main()
