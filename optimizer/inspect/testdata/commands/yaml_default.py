import argparse

import yaml

parser = argparse.ArgumentParser()
parser.add_argument("--config", default="training.yaml")
args = parser.parse_args()
with open(args.config) as f:
    cfg = yaml.safe_load(f)
for epoch in range(cfg["training"]["epochs"]):
    print(f"epoch {epoch + 1}")
