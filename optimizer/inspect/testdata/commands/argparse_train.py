import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("data", metavar="DIR", nargs="?", default="data")
parser.add_argument("-e", "--epochs", type=int, default=12, help="number of epochs")
parser.add_argument("-b", "--batch-size", type=int, default=64)
parser.add_argument("-j", "--workers", type=int, default=4)
parser.add_argument("--max-steps", type=int, default=-1)
parser.add_argument("--resume", default="", type=str, help="checkpoint to continue from")
parser.add_argument("--save-dir", default="runs")
parser.add_argument("--amp", action="store_true")
parser.add_argument("--seed", type=int, default=3)


def main():
    args = parser.parse_args()
    if args.resume:
        checkpoint = torch.load(args.resume)
        start = checkpoint["epoch"]
    try:
        for epoch in range(args.epochs):
            torch.save({"epoch": epoch}, args.save_dir + "/checkpoint.pt")
    except KeyboardInterrupt:
        print("stopped early: testing")


main()
