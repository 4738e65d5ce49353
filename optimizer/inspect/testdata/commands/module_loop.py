import argparse

from module_of_loop import fit

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=91)
fit(parser.parse_args())
