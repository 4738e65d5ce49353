import argparse

parser = argparse.ArgumentParser()
parser.add_argument('--epochs', type=int, default=50, help='upper epoch limit (default: 50)')
parser.add_argument('--iters', type=int, default=100, help='number of iters per epoch (default: 100)')
args = parser.parse_args()

for ep in range(1, args.epochs + 1):
    train(ep)
