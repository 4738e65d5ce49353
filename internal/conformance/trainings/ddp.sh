#!/usr/bin/env bash
# Start of the data-parallel training as a cluster's job script has it: ddp.sh EPOCHS SAVE_EVERY
set -euo pipefail
export OMP_NUM_THREADS=1
echo "launching 2 processes on $(hostname)"
exec torchrun --standalone --nproc_per_node=2 ddp.py "$@"
