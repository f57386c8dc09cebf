"""TFRecord files of tf.Examples, with the feature names of TensorFlow's own image classification datasets."""

import dataclasses
import os
import re
import struct
from typing import Any

from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.datasets.dataset import About, Dataset, default_settings, sides
from estimator_train.app.datasets.part import InputFn, Part

ABOUT = About("classification", "any", "files train*, test* and labels.txt")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Records(Part):
    """Files whose tf.Examples have `image/encoded`, a JPEG or PNG, and `image/class/label`, a class index."""

    files: list[str]

    def input_fn(self, image_size: tuple[int, int], **options: Any) -> InputFn:
        import tensorflow as tf

        from estimator_train.app.datasets.pipeline import ExampleBatches
        from estimator_train.input_fns.images.decoding import decode_image

        features = {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        }
        number = len(self.class_names)

        def load(record):
            example = tf.io.parse_single_example(record, features)
            label = example["image/class/label"]
            told = [label, f"is no class: image/class/label must be below {number}, the lines of labels.txt"]
            # The raw op, because tf.debugging.Assert is a tf.cond, which takes a tenth of the time per image.
            with tf.control_dependencies([tf.raw_ops.Assert(condition=(label >= 0) & (label < number), data=told)]):
                return decode_image(example["image/encoded"], image_size), tf.one_hot(label, number)

        return ExampleBatches(lambda: tf.data.TFRecordDataset(self.files), load, num_examples=self.count, **options)


def open_dataset(data_dir: StrPath) -> Dataset:
    """Returns the dataset in the TFRecord files in `data_dir`: train* for training, test* or val* for evaluation.

    If there are both, val* are for validation. Each line of `labels.txt` names a class; an index in front, as in
    "0:cat", is ignored.

    Raises FileNotFoundError without labels.txt or TFRecord files, and ValueError for files that are compressed,
    truncated or empty.
    """
    directory = as_path(data_dir)
    class_names = _class_names(directory / "labels.txt")
    parts = {}
    for pattern, files in _by_pattern(directory).items():
        if not files:
            raise FileNotFoundError(f"{directory} has no TFRecord files named {pattern}")
        parts[pattern] = Records(class_names=class_names, files=files, number=sum(map(_count, files)))
        if not parts[pattern].count:
            raise ValueError(f"the TFRecord files in {directory} named {pattern} have no records")
    return Dataset(name="tfrecord", class_names=class_names, **default_settings(None, None), **sides(parts))


def _class_names(labels):
    if not labels.is_file():
        raise FileNotFoundError(f"there is no {labels}: write the name of each class on a line there")
    try:
        names = [line for line in labels.read_text(encoding="utf-8-sig").splitlines() if line]
    except UnicodeDecodeError as error:
        raise ValueError(f"{labels} is not UTF-8 text: {error}") from error
    if not names:
        raise ValueError(f"{labels} is empty: write the name of each class on a line there")
    return tuple(re.sub(r"^\d+:", "", line) for line in names)


def _by_pattern(directory):
    """Returns {pattern: files} of the parts: to train on, to evaluate on and perhaps to validate with."""
    train, test, val = (_files(directory, side) for side in ("train", "test", "val"))
    by_pattern = {"train*": train, "test* or val*": test or val}
    if test and val:
        by_pattern["val*"] = val
    return by_pattern


def _files(directory, start):
    paths = sorted(directory.glob(f"{start}*"))
    return [str(path) for path in paths if ".tfrecord" in path.name or "-of-" in path.name]


def _count(path):
    """Counts the records of a file. Each is a length (8 bytes), its CRC (4 bytes), the data, and its CRC (4 bytes)."""
    number, position = 0, 0
    with as_path(path).open("rb") as file:
        file.seek(0, os.SEEK_END)
        size = file.tell()
        while position < size:
            file.seek(position)
            header = file.read(8)
            if len(header) < 8:
                break
            position += 16 + struct.unpack("<Q", header)[0]
            number += 1
    if position != size:
        raise ValueError(f"{path} is not an uncompressed TFRecord file, or is truncated")
    return number
