"""tf.contrib.learn.datasets.base: CSV files as arrays."""

import csv
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from estimator_train.compat.tf1.mnist_files import Datasets as Datasets


class Dataset(NamedTuple):
    """Examples: an array of their features, and one of their targets."""

    data: Any
    target: Any


def load_csv_with_header(
    filename: str | os.PathLike[str],
    target_dtype: npt.DTypeLike,
    features_dtype: npt.DTypeLike,
    target_column: int = -1,
) -> Dataset:
    """Reads a CSV file whose first line begins with the numbers of its examples and of their features.

        training_set = base.load_csv_with_header("iris_training.csv", target_dtype=np.int32, features_dtype=np.float32)

    The features are (examples, features), the targets (examples,). Examples that the file lacks are zeros.
    """
    (examples, features, *_), *rows = _rows(filename)
    found = _dataset(rows, target_dtype, features_dtype, target_column)
    data = np.zeros([int(examples), int(features)], features_dtype)
    target = np.zeros([int(examples)], target_dtype)
    data[: len(rows)], target[: len(rows)] = found
    return Dataset(data, target)


def load_csv_without_header(
    filename: str | os.PathLike[str],
    target_dtype: npt.DTypeLike,
    features_dtype: npt.DTypeLike,
    target_column: int = -1,
) -> Dataset:
    """Reads a CSV file of examples alone, as `load_csv_with_header` does."""
    return _dataset(_rows(filename), target_dtype, features_dtype, target_column)


def _rows(filename):
    with tf.io.gfile.GFile(filename) as file:
        return list(csv.reader(file))


def _dataset(rows: Iterable[list[str]], target_dtype, features_dtype, target_column):
    targets = [row.pop(target_column) for row in rows]
    return Dataset(np.array(rows, features_dtype), np.array(targets, target_dtype))
