import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=4000)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()
for epoch in range(args.epochs):
    for t in range(args.steps):
        update(t)
