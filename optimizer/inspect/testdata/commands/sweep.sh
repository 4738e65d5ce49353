#!/bin/bash
for lr in 0.1 0.01; do
  python argparse_train.py --epochs 4 --lr $lr
done
