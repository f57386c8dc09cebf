"""The module input_data of tensorflow.examples.tutorials.mnist, which TensorFlow 1 had: reads the files of MNIST."""

import gzip
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

_CLASSES = 10
_PIXELS = 784


class DataSet:
    """Images and their labels, and batches of them.

        data = read_data_sets("MNIST_data", one_hot=True)
        images, labels = data.train.next_batch(100)

    Images are float32 in [0, 1], or uint8 with `dtype=tf.uint8`, of shape (number, 784), or (number, 28, 28, 1) with
    `reshape=False`. Labels are uint8 of shape (number,), or float64 of shape (number, 10) with `one_hot=True`.
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: tf.DType = tf.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        seeds = tf.compat.v1.get_seed(seed)
        np.random.seed(seeds[seed is not None])
        dtype = tf.as_dtype(dtype)
        if dtype not in (tf.uint8, tf.float32):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        if not fake_data:
            images = images.reshape(len(images), math.prod(images.shape[1:])) if reshape else images
            images = np.multiply(images, np.float32(1 / 255)) if dtype == tf.float32 else images
        self.images, self.labels = images, labels
        self.num_examples = 10000 if fake_data else len(images)
        self.epochs_completed = 0
        self._one_hot = one_hot
        self._next = 0

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """Returns the next `batch_size` images and labels; the examples are shuffled at the start of each epoch."""
        if fake_data:
            label = [1] + [0] * (_CLASSES - 1) if self._one_hot else 0
            return [[1] * _PIXELS] * batch_size, [label] * batch_size
        start, end = self._next, self._next + batch_size
        if shuffle and start == self.epochs_completed == 0:
            self._shuffle()
        images, labels = self.images[start:end], self.labels[start:end]
        self._next = end
        if end > self.num_examples:
            self.epochs_completed += 1
            if shuffle:
                self._shuffle()
            self._next = end - self.num_examples
            images = np.concatenate([images, self.images[: self._next]])
            labels = np.concatenate([labels, self.labels[: self._next]])
        return images, labels

    def _shuffle(self):
        order = np.arange(self.num_examples)
        np.random.shuffle(order)
        self.images, self.labels = self.images[order], self.labels[order]


class Datasets(NamedTuple):
    """The three parts of MNIST."""

    train: DataSet
    validation: DataSet
    test: DataSet


def read_data_sets(
    train_dir: str | os.PathLike[str],
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: tf.DType = tf.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str | None = None,
) -> Datasets:
    """Reads the four files of MNIST in `train_dir`; the first `validation_size` training images are for validation.

    Nothing is downloaded: `source_url` is ignored. `DataSet` describes the other arguments.
    """
    options: dict[str, Any] = {"one_hot": one_hot, "dtype": dtype, "reshape": reshape, "seed": seed}
    if fake_data:
        return Datasets(*(DataSet([], [], fake_data=True, **options) for _ in range(3)))
    images, labels = _read_part(train_dir, "train", one_hot)
    test = _read_part(train_dir, "t10k", one_hot)
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"Validation size should be between 0 and {len(images)}. Received: {validation_size}.")
    train = images[validation_size:], labels[validation_size:]
    validation = images[:validation_size], labels[:validation_size]
    return Datasets(*(DataSet(*part, **options) for part in (train, validation, test)))


def _read_part(folder, name, one_hot):
    images = _read(Path(folder) / f"{name}-images-idx3-ubyte.gz")
    labels = _read(Path(folder) / f"{name}-labels-idx1-ubyte.gz")
    return images, np.eye(_CLASSES)[labels] if one_hot else labels


def _read(path):
    """Returns the images (number, rows, columns, 1) or the labels (number,) in a gzipped IDX file, as uint8."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist, and nothing is downloaded: put the four files of MNIST into {path.parent}, or "
            "read it with tf.keras.datasets.mnist.load_data()"
        )
    content = gzip.decompress(path.read_bytes())
    magic = int.from_bytes(content[:4], "big")
    rank = 3 if "images" in path.name else 1
    if magic != 0x800 + rank:
        raise ValueError(f"Invalid magic number {magic} in MNIST file: {path}; it should be {0x800 + rank}")
    shape = np.frombuffer(content, ">u4", rank, 4)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * rank)
    return values.reshape(*shape, 1) if rank == 3 else values
