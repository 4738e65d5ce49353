"""Writes a small detection data set for `yolo detect train data=data.yaml`: squares and circles on noise."""
import os

import cv2
import numpy as np


def main():
    rng = np.random.default_rng(9)
    for split, count in (("train", 48), ("val", 8)):
        os.makedirs(f"data/images/{split}", exist_ok=True)
        os.makedirs(f"data/labels/{split}", exist_ok=True)
        for i in range(count):
            picture = rng.integers(0, 60, (96, 96, 3), dtype=np.uint8)
            kind, radius = int(rng.integers(2)), int(rng.integers(8, 20))
            x, y = (int(v) for v in rng.integers(22, 74, 2))
            if kind == 0:
                cv2.rectangle(picture, (x - radius, y - radius), (x + radius, y + radius), (0, 200, 255), -1)
            else:
                cv2.circle(picture, (x, y), radius, (255, 180, 0), -1)
            cv2.imwrite(f"data/images/{split}/{i:03d}.png", picture)
            with open(f"data/labels/{split}/{i:03d}.txt", "w") as f:
                f.write(f"{kind} {x / 96:.4f} {y / 96:.4f} {radius / 48:.4f} {radius / 48:.4f}\n")
    with open("data.yaml", "w") as f:
        f.write(f"path: {os.path.abspath('data')}\ntrain: images/train\nval: images/val\nnames:\n  0: square\n  1: circle\n")


if __name__ == "__main__":
    main()
