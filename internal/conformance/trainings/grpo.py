"""Group relative policy optimisation with TRL of a tiny Llama, which is rewarded for answers with many different words."""
from datasets import Dataset
from transformers import HfArgumentParser
from trl import GRPOConfig, GRPOTrainer

from tiny_llama import Count, model_of, sentences, tokenizer_of


def different_words(completions, **kwargs):
    return [float(len(set(c.split()))) for c in completions]


def main():
    args, = HfArgumentParser(GRPOConfig).parse_args_into_dataclasses()
    prompts = sentences(200, 8)
    tokenizer = tokenizer_of(prompts)
    trainer = GRPOTrainer(model=model_of(tokenizer), reward_funcs=different_words, args=args, processing_class=tokenizer,
                          train_dataset=Dataset.from_dict({"prompt": prompts}),
                          callbacks=[Count(args.per_device_train_batch_size * args.gradient_accumulation_steps)])
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model()


if __name__ == "__main__":
    main()
