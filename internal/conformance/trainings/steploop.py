"""Character-level GPT trained by a step loop without a DataLoader; any variable below may be set as --name=value."""
import ast
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

import truth

out_dir = 'out'
eval_interval = 50
eval_iters = 5
log_interval = 1
init_from = 'scratch'  # 'scratch' or 'resume'
batch_size = 12
block_size = 64
n_layer = 3
n_head = 4
n_embd = 64
learning_rate = 1e-3
max_iters = 1000
compile = False  # by torch.compile
seed = 1337

for argument in sys.argv[1:]:
    assert argument.startswith('--') and '=' in argument, argument
    key, value = argument[2:].split('=', 1)
    assert key in globals(), f'unknown key {key}'
    try:
        globals()[key] = ast.literal_eval(value)
    except (SyntaxError, ValueError):
        globals()[key] = value

torch.manual_seed(seed)
os.makedirs(out_dir, exist_ok=True)
words = "the of model data train loss step batch layer weight and to is in a".split()
text = ' '.join(words[i] for i in np.random.default_rng(7).integers(0, len(words), 60000))
letters = sorted(set(text))
data = torch.tensor([letters.index(c) for c in text])
cut = int(0.9 * len(data))


def get_batch(split):
    part = data[:cut] if split == 'train' else data[cut:]
    at = torch.randint(len(part) - block_size, (batch_size,))
    return torch.stack([part[i:i + block_size] for i in at]), torch.stack([part[i + 1:i + 1 + block_size] for i in at])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.out = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (y.view(B, T, n_head, C // n_head).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(len(letters), n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.norm, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, len(letters), bias=False)

    def forward(self, x, targets):
        x = self.token(x) + self.position(torch.arange(x.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
iter_num, best_val_loss = 0, 1e9
if init_from == 'resume':
    print(f"Resuming training from {out_dir}")
    checkpoint = torch.load(os.path.join(out_dir, 'ckpt.pt'))
    model.load_state_dict(checkpoint['model'])
    optimizer.load_state_dict(checkpoint['optimizer'])
    iter_num, best_val_loss = checkpoint['iter_num'], checkpoint['best_val_loss']
if compile:
    print("compiling the model...")
    model = torch.compile(model)
print("number of parameters: %.2fM" % (sum(p.numel() for p in model.parameters()) / 1e6,))


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = {split: sum(model(*get_batch(split)).item() for _ in range(eval_iters)) / eval_iters for split in ('train', 'val')}
    model.train()
    return out


t0 = time.time()
while True:
    lr = learning_rate * 0.5 * (1 + math.cos(math.pi * iter_num / max_iters))
    for group in optimizer.param_groups:
        group['lr'] = lr
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
        if iter_num > 0:
            print(f"saving checkpoint to {out_dir}")
            torch.save({'model': getattr(model, '_orig_mod', model).state_dict(), 'optimizer': optimizer.state_dict(), 'iter_num': iter_num, 'best_val_loss': losses['val']},
                       os.path.join(out_dir, 'ckpt.pt'))
    if iter_num >= max_iters:
        break
    loss = model(*get_batch('train'))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    t1 = time.time()
    if iter_num % log_interval == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}, time {(t1 - t0) * 1000:.2f}ms")
    t0 = t1
    iter_num += 1
    truth.at(iter_num, 0, iter_num * batch_size)
