from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

words = ["<pad>", "<eos>"] + ["w%d" % i for i in range(60)]
core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<pad>"))
core.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>")
model = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_positions=64, n_embd=16, n_layer=1, n_head=2))
data = Dataset.from_dict({"text": [" ".join("w%d" % ((i * j) % 60) for j in range(20)) for i in range(64)]})
args = SFTConfig(output_dir="out", max_steps=20, per_device_train_batch_size=4, save_steps=10, logging_steps=5, report_to="none", use_cpu=True, bf16=False,
                 max_length=32)
SFTTrainer(model=model, args=args, train_dataset=data, processing_class=tokenizer).train()
