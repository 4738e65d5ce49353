"""Tiny Llama built from its configuration, and a tokenizer trained on generated sentences, for the TRL trainings."""
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback

import truth

WORDS = "a model learns from data while the loss falls and its weights move step by step toward an answer".split()


class Count(TrainerCallback):
    def __init__(self, samples_per_step):
        self.samples_per_step = samples_per_step

    def on_step_end(self, args, state, control, **kwargs):
        truth.at(state.global_step, state.epoch, state.global_step * self.samples_per_step)


def sentences(count, length=40, seed=3):
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) for _ in range(length)) for _ in range(count)]


def tokenizer_of(texts):
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["<unk>", "<pad>", "<s>", "</s>"]))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def model_of(tokenizer):
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=96, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id))
