#!/bin/bash
EPOCHS=15
torchrun --standalone --nproc_per_node 2 argparse_train.py --epochs $EPOCHS \
  --batch-size 32
