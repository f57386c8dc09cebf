"""An input_fn of what a model's frozen layers make of the examples, computed once for each."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from estimator_train.input_fns.order import number_batches, share_of_pipeline

_DTYPES = ("float32", "float16")


def frozen_features(
    examples: Callable[..., tf.data.Dataset],
    batch_size: int = 64,
    num_epochs: int | None = None,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    cache: str | os.PathLike[str] = "memory",
    dtype: str = "float32",
) -> FrozenFeatures:
    """Returns an input_fn for `train` of a Keras model's Estimator that runs the frozen layers once an example.

    The leading layers of the model that are frozen (`trainable = False`) and give the same each time run over all
    examples when training starts, and their outputs are kept; each step then runs and trains the rest of the model over
    all replicas. Losses, checkpoints, evaluation, prediction and export are those of the whole model.

    Args:
      examples: an input_fn of each example once, in a fixed order: one epoch, not shuffled nor augmented. Its batch
        size is what the frozen layers take at once.
      batch_size: examples a batch on each replica; only the very last batch may be short.
      num_epochs: passes over the examples; None is forever.
      shuffle: whether to shuffle as `image_files` does. With the same seed, the order is the same.
      seed: of the shuffle; None draws one by TensorFlow's global seed, if that is set.
      cache: "memory", or a directory on a local disk, made when missing. What is there serves later runs as long as the
        frozen layers, their weights, `dtype` and the examples are the same. Filling that was interrupted goes on where
        it was; of several processes one fills, and the others wait.
      dtype: what float32 features are kept in. "float16" takes half the room, with features rounded to 11 bits, so that
        losses differ in the third or fourth digit. The labels, and features of other types, are kept as they are.

    If the input_fn has a method `fingerprint()` that returns a str, that says whether the examples of a directory are
    still the same; otherwise all are read once in each process, without computing, and compared by their SHA-256.

    The features stay in memory as long as the input_fn and the Estimator: further calls of `train` do not fill again.

    Raises:
      ValueError: another `dtype` or a `batch_size` that is not positive. From `train`: the model cannot be split (a
        class of its own, no frozen layers that lead it, Dropout, augmentation or a trained BatchNormalization before
        frozen layers), the examples do not end or are no dense tensors of one shape, or float16 does not hold a
        feature. From `evaluate` and `predict`: give them an input_fn of the examples.
      MemoryError, OSError: from `train`, where the features do not fit in memory or on the disk.
    """
    if dtype not in _DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size!r}")
    if not callable(examples):
        raise ValueError(f"examples must be an input_fn, a function that returns a tf.data.Dataset, got {examples!r}")
    folder = None if cache == "memory" else os.fspath(cache)
    return FrozenFeatures(examples, folder, dtype, batch_size, num_epochs, shuffle, seed)


@dataclasses.dataclass(frozen=True, eq=False)
class FrozenFeatures:
    """What `frozen_features` was given; `folder` None is memory. Follows the protocol `StartsAnywhere`.

    `first`: how many examples are left out at the beginning, over all epochs and input pipelines.
    """

    examples: Callable
    folder: str | None
    dtype: str
    batch_size: int
    num_epochs: int | None
    shuffle: bool
    seed: int | None
    first: int = 0

    def __call__(self) -> NoReturn:
        raise ValueError(
            "frozen_features is input for train() of the Estimator of a Keras model; give evaluate, predict and other "
            "models an input_fn of the examples."
        )

    def starting_at(self, examples: int, seed: int) -> FrozenFeatures:
        return dataclasses.replace(self, first=examples, seed=seed if self.seed is None else self.seed)

    def batches(
        self, columns: Sequence[np.ndarray], structure: Any, input_context: tf.distribute.InputContext
    ) -> tf.data.Dataset:
        """The `tf.data.Dataset` over `columns`, arrays of (examples, ...) for the leaves of `structure`."""

        def rows(indices):
            # Gathered by numpy: the columns stay where they are instead of becoming constants of the graph. Unlike
            # columns[i], take releases the GIL while it copies.
            batch = tf.numpy_function(lambda i: [np.take(column, i, axis=0) for column in columns], [indices], dtypes)
            for tensor, column in zip(batch, columns, strict=True):
                tensor.set_shape((None, *column.shape[1:]))
            return tf.nest.pack_sequence_as(structure, batch)

        dtypes = [tf.as_dtype(column.dtype) for column in columns]
        batches = number_batches(
            len(columns[0]),
            batch_size=self.batch_size,
            num_epochs=self.num_epochs,
            shuffle=self.shuffle,
            seed=self.seed,
            start=share_of_pipeline(self.first, input_context),
        )
        return batches.map(rows, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
