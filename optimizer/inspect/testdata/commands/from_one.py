import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=201)
args = parser.parse_args()
for epoch in range(1, args.epochs):
    train()
