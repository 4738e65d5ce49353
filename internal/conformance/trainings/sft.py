"""Supervised fine-tuning with TRL of a tiny Llama."""
from datasets import Dataset
from transformers import HfArgumentParser
from trl import SFTConfig, SFTTrainer

from tiny_llama import Count, model_of, sentences, tokenizer_of


def main():
    args, = HfArgumentParser(SFTConfig).parse_args_into_dataclasses()
    texts = sentences(800)
    tokenizer = tokenizer_of(texts)
    trainer = SFTTrainer(model=model_of(tokenizer), args=args, train_dataset=Dataset.from_dict({"text": texts}), processing_class=tokenizer,
                         callbacks=[Count(args.per_device_train_batch_size * args.gradient_accumulation_steps)])
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model()


if __name__ == "__main__":
    main()
