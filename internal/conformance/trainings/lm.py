"""Word-level transformer language model with batches from contiguous text, in the shape of PyTorch's word_language_model."""
import argparse
import math
import os
import time

import torch
import torch.nn as nn

import truth

parser = argparse.ArgumentParser(description='Transformer language model')
parser.add_argument('--emsize', type=int, default=96)
parser.add_argument('--nhead', type=int, default=4)
parser.add_argument('--nlayers', type=int, default=2)
parser.add_argument('--lr', type=float, default=1.0)
parser.add_argument('--clip', type=float, default=0.25)
parser.add_argument('--epochs', type=int, default=24, help='upper epoch limit')
parser.add_argument('--batch_size', type=int, default=20)
parser.add_argument('--bptt', type=int, default=35, help='sequence length')
parser.add_argument('--tokens', type=int, default=14001)
parser.add_argument('--log-interval', type=int, default=10)
parser.add_argument('--save', type=str, default='model.pt', help='path to save the training state')
parser.add_argument('--resume', type=str, default='', help='path of a training state to continue from')
args = parser.parse_args()
torch.manual_seed(1111)
vocabulary = 500


def text(count, seed):
    generator = torch.Generator().manual_seed(seed)
    jumps = torch.randint(0, 3, (count,), generator=generator)
    return torch.cumsum(jumps, 0) % vocabulary


def batchify(data):
    length = data.size(0) // args.batch_size
    return data.narrow(0, 0, length * args.batch_size).view(args.batch_size, -1).t().contiguous()


class TransformerModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, args.emsize)
        position = torch.arange(512).unsqueeze(1)
        scale = torch.exp(torch.arange(0, args.emsize, 2) * (-math.log(10000.0) / args.emsize))
        table = torch.zeros(512, 1, args.emsize)
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(position * scale), torch.cos(position * scale)
        self.register_buffer('table', table)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(args.emsize, args.nhead, 2 * args.emsize), args.nlayers)
        self.decoder = nn.Linear(args.emsize, vocabulary)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(0))
        return self.decoder(self.encoder(self.embed(x) + self.table[:x.size(0)], mask=mask, is_causal=True))


train_data, val_data = batchify(text(args.tokens, 1)), batchify(text(3001, 2))
model, criterion = TransformerModel(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
batches = math.ceil((len(train_data) - 1) / args.bptt)


def get_batch(source, i):
    length = min(args.bptt, len(source) - 1 - i)
    return source[i:i + length], source[i + 1:i + 1 + length].view(-1)


def evaluate(source):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, args.bptt):
            data, targets = get_batch(source, i)
            total += len(data) * criterion(model(data).view(-1, vocabulary), targets).item()
    return total / (len(source) - 1)


def train(epoch):
    model.train()
    total, start = 0.0, time.time()
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        data, targets = get_batch(train_data, i)
        optimizer.zero_grad()
        loss = criterion(model(data).view(-1, vocabulary), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        total += loss.item()
        done = (epoch - 1) * batches + batch + 1
        truth.at(done, done / batches, done * args.batch_size)
        if batch % args.log_interval == 0 and batch > 0:
            elapsed = time.time() - start
            print('| epoch {:3d} | {:5d}/{:5d} batches | lr {:02.2f} | ms/batch {:5.2f} | loss {:5.2f} | ppl {:8.2f}'.format(
                epoch, batch, batches, args.lr, elapsed * 1000 / args.log_interval, total / args.log_interval, math.exp(total / args.log_interval)))
            total, start = 0.0, time.time()


first = 1
if args.resume:
    state = torch.load(args.resume)
    model.load_state_dict(state['model'])
    optimizer.load_state_dict(state['optimizer'])
    first = state['epoch'] + 1
try:
    for epoch in range(first, args.epochs + 1):
        start = time.time()
        train(epoch)
        val_loss = evaluate(val_data)
        print('-' * 89)
        print('| end of epoch {:3d} | time: {:5.2f}s | valid loss {:5.2f} | valid ppl {:8.2f}'.format(epoch, time.time() - start, val_loss, math.exp(val_loss)))
        print('-' * 89)
        torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'epoch': epoch}, args.save + '.tmp')
        os.replace(args.save + '.tmp', args.save)
except KeyboardInterrupt:
    print('-' * 89)
    print('Exiting from training early')
print('=' * 89)
print('| End of training | test loss {:5.2f}'.format(evaluate(val_data)))
