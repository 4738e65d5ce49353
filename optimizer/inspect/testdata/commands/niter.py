import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--niter", type=int, default=25, help="number of epochs to train for")
