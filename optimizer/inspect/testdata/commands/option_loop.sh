#!/bin/bash
while [ $# -gt 0 ]; do
  case "$1" in
    --lr) lr=$2; shift 2 ;;
    --epochs) epochs=$2; shift 2 ;;
  esac
done
python argparse_train.py --lr "$lr" --epochs "$epochs"
