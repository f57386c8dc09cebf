"""How long ten thousand small JPEGs in class folders take to be listed, and until their first batch is there.

    python -m benchmarks.first_batch

Each round opens the folder anew; the files are in the page cache, as after their making.
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image

from estimator_train import datasets

CLASSES, IMAGES_PER_CLASS = 10, 1000
ROUNDS = 5


def main():
    with tempfile.TemporaryDirectory() as folder:
        _make(Path(folder))
        next(iter(tf.data.Dataset.range(1)))  # TensorFlow's own start is not counted
        listings, batches = [], []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            data = datasets.open_dataset("images", folder)
            listings.append(time.perf_counter() - start)
            next(iter(data.train_input_fn(image_size=(64, 64), batch_size=32, num_epochs=None)()))
            batches.append(time.perf_counter() - start)
    for name, seconds in (("listed", listings), ("first batch", batches)):
        print(
            f"{name}: {statistics.median(seconds):.2f} s, {min(seconds):.2f} to {max(seconds):.2f} in {ROUNDS} rounds"
        )


def _make(folder):
    rng = np.random.default_rng(1)
    for label in range(CLASSES):
        (folder / f"class-{label}").mkdir()
        for index in range(IMAGES_PER_CLASS):
            pixels = rng.integers(0, 255, (32, 32, 3), np.uint8)
            Image.fromarray(pixels).save(folder / f"class-{label}" / f"{index}.jpeg")


if __name__ == "__main__":
    main()
