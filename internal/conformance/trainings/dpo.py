"""Direct preference optimisation with TRL of a tiny Llama; the better answers are those that are longer."""
from datasets import Dataset
from transformers import HfArgumentParser
from trl import DPOConfig, DPOTrainer

from tiny_llama import Count, model_of, sentences, tokenizer_of


def main():
    args, = HfArgumentParser(DPOConfig).parse_args_into_dataclasses()
    prompts, chosen, rejected = sentences(400, 8, 3), sentences(400, 16, 4), sentences(400, 6, 5)
    tokenizer = tokenizer_of(prompts)
    trainer = DPOTrainer(model=model_of(tokenizer), ref_model=model_of(tokenizer), args=args, processing_class=tokenizer,
                         train_dataset=Dataset.from_dict({"prompt": prompts, "chosen": chosen, "rejected": rejected}),
                         callbacks=[Count(args.per_device_train_batch_size * args.gradient_accumulation_steps)])
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model()


if __name__ == "__main__":
    main()
