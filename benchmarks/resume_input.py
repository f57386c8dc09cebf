"""Measures how long it takes to resume at the end of an epoch of ten thousand scans, as a share of the epoch.

    python -m benchmarks.resume_input

Each round reads a whole epoch, then only its first batch, then only its last batch, each timed from the call of the
input_fn. The cost is the time to the last batch minus the time to the first. The scans are two hundred images repeated,
in separate files and in a TFRecord file.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

import tensorflow as tf

from benchmarks import scans
from estimator_train import input_fns
from estimator_train.app import datasets

EXAMPLES, DRAWN, BATCH, ROUNDS = 10_000, 200, 32, 5


def main():
    with tempfile.TemporaryDirectory() as folder:
        inputs = _make(Path(folder))
        for name, input_fn in inputs.items():
            at_end = input_fn.starting_at(EXAMPLES - BATCH, 1)
            rounds = [(_seconds(input_fn), _seconds(input_fn, 1), _seconds(at_end, 1)) for _ in range(ROUNDS)]
            ratios = [(last - first) / epoch for epoch, first, last in rounds]
            print(
                f"{name}: starting at the last batch costs {statistics.median(ratios):.2%} of an epoch, "
                f"{min(ratios):.2%} to {max(ratios):.2%} in {ROUNDS} rounds; an epoch takes {rounds[-1][0]:.1f} s"
            )


def _make(folder):
    """Returns the training input_fns over one epoch of files and of records."""
    scans.draw(folder, DRAWN)
    drawn = sorted(folder.glob("*/*.jpeg"))
    names = sorted({path.parent.name for path in drawn})
    (folder / "records").mkdir()
    (folder / "records/labels.txt").write_text("\n".join(names))
    for side, number in (("train", EXAMPLES), ("test", 1)):
        with tf.io.TFRecordWriter(str(folder / f"records/{side}.tfrecord")) as records:
            for index in range(number):
                path = drawn[index % DRAWN]
                link = folder / "images" / path.parent.name / f"{side}-{index}.jpeg"
                link.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, link)
                feature = {
                    "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[path.read_bytes()])),
                    "image/class/label": tf.train.Feature(
                        int64_list=tf.train.Int64List(value=[names.index(path.parent.name)])
                    ),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                records.write(example.SerializeToString())
    options = {"image_size": (224, 224), "batch_size": BATCH, "num_epochs": 1, "seed": 1}
    files = sorted(str(path) for path in folder.glob("images/*/train-*"))
    records = datasets.open_dataset("tfrecord", str(folder / "records"))
    return {
        "image files": input_fns.image_files(files, names, shuffle=True, **options),
        "TFRecord": records.train_input_fn(**options),
    }


def _seconds(input_fn, batches=-1):
    """Returns the time to read that many batches, or all for -1."""
    start = time.perf_counter()
    for _ in input_fn().take(batches):
        seconds = time.perf_counter() - start
    return seconds


if __name__ == "__main__":
    main()
