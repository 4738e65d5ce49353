"""Supervised fine-tuning with TRL of a tiny Llama built from its configuration, with a tokenizer trained on the spot."""
import random

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

import truth


class Count(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        truth.at(state.global_step, state.epoch, state.global_step * args.per_device_train_batch_size * args.gradient_accumulation_steps)


def sentences(count):
    rng = random.Random(3)
    words = "a model learns from data while the loss falls and its weights move step by step toward an answer".split()
    return [" ".join(rng.choice(words) for _ in range(40)) for _ in range(count)]


def tokenizer_of(texts):
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["<unk>", "<pad>", "<s>", "</s>"]))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def main():
    args, = HfArgumentParser(SFTConfig).parse_args_into_dataclasses()
    texts = sentences(800)
    tokenizer = tokenizer_of(texts)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=96, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id))
    trainer = SFTTrainer(model=model, args=args, train_dataset=Dataset.from_dict({"text": texts}), processing_class=tokenizer, callbacks=[Count()])
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model()


if __name__ == "__main__":
    main()
