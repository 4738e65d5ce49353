#!/bin/sh
set -e
epochs=${2:-9}
lr=${1}
shift 2
exec python argparse_train.py --epochs "$epochs" --lr "$lr" "$@"
