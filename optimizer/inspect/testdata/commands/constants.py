# Constants that a configurator lets the command line override.
out_dir = 'out'
eval_interval = 500
always_save_checkpoint = True
init_from = 'scratch'  # 'scratch' or 'resume'
batch_size = 8  # sequences in a micro batch
gradient_accumulation_steps = 4 * 2
learning_rate = 1e-3
max_iters = 2 * 1000
warmup_iters = 100
lr_decay_iters = 2000
exec(open('configurator.py').read())

import os
import torch

if init_from == 'resume':
    checkpoint = torch.load(os.path.join(out_dir, 'ckpt.pt'))
    model.load_state_dict(checkpoint['model'])
    iter_num = checkpoint['iter_num']
while True:
    step()
    if iter_num % eval_interval == 0:
        torch.save({'model': model.state_dict(), 'iter_num': iter_num}, os.path.join(out_dir, 'ckpt.pt'))
    iter_num += 1
    if iter_num > max_iters:
        break
