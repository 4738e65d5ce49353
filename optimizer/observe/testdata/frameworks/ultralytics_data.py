import os

import numpy as np
from PIL import Image

rng = np.random.default_rng(0)
for part, n in (("train", 24), ("val", 4)):
    os.makedirs("data/images/" + part)
    os.makedirs("data/labels/" + part)
    for i in range(n):
        Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)).save("data/images/%s/%d.jpg" % (part, i))
        with open("data/labels/%s/%d.txt" % (part, i), "w") as f:
            f.write("0 0.5 0.5 0.4 0.4\n")
with open("data.yaml", "w") as f:
    f.write("path: %s\ntrain: images/train\nval: images/val\nnames: {0: thing}\n" % os.path.abspath("data"))
