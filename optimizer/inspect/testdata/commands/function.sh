#!/bin/bash
train() {
  python argparse_train.py --epochs "$1"
}
train 5
