import argparse
from yacs.config import CfgNode

parser = argparse.ArgumentParser()
parser.add_argument("--config-file", default="", metavar="FILE")
parser.add_argument("opts", default=None, nargs=argparse.REMAINDER)
args = parser.parse_args()
cfg = CfgNode(new_allowed=True)
cfg.merge_from_file(args.config_file)
cfg.merge_from_list(args.opts)
for iteration in range(cfg.SOLVER.MAX_ITER):
    train()
