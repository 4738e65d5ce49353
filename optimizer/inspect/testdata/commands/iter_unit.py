import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--iter_unit", choices=["epoch", "batch"], default="epoch", help="Unit of iterations.")
parser.add_argument("--num_iter", type=int, default=1, help="Number of iterations to run.")
args = parser.parse_args()
steps = args.num_iter * len(data) if args.iter_unit == "epoch" else args.num_iter
for i in range(steps):
    train()
