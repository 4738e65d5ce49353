import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epoch_count", type=int, default=1)
parser.add_argument("--n_epochs", type=int, default=100, help="number of epochs with the initial learning rate")
parser.add_argument("--n_epochs_decay", type=int, default=100, help="number of epochs to linearly decay learning rate to zero")
opt = parser.parse_args()
for epoch in range(opt.epoch_count, opt.n_epochs + opt.n_epochs_decay + 1):
    train()
