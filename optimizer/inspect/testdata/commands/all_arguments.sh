#!/usr/bin/env bash
torchrun --standalone --nproc_per_node=2 argparse_train.py "$@"
