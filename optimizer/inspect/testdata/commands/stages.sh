#!/bin/bash
set -e
python argparse_train.py --epochs 4
python argparse_train.py --epochs 2 --batch-size 64
