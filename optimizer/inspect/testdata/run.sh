#!/bin/bash
# python old_train.py --epochs 99
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
EPOCHS=${EPOCHS:-14}
python3 "$HERE/sklearn_iris.py" > /dev/null
cat <<DOC
python3 keras_mnist.py
DOC
if [ -n "$1" ]; then
  OMP_NUM_THREADS=4 exec torchrun --nproc_per_node=2 \
      "$HERE"/imagenet_ddp.py --epochs "$EPOCHS" -b 512 --arch=vgg16
fi
