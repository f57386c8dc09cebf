"""frozen_features: an input_fn that computes the outputs of a model's frozen layers only once per example."""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from estimator_train._engine.autograph import unconverted
from estimator_train._engine.host.array_store import rows_of
from estimator_train._engine.input_fns.order import number_batches, share_of_pipeline
from estimator_train._engine.keras_forms import check_input_fn, refuses_keras_arguments

_DTYPES = ("float32", "float16")


@refuses_keras_arguments
def frozen_features(
    examples: Callable[..., tf.data.Dataset],
    batch_size: int = 64,
    num_epochs: int | None = None,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    cache: str | os.PathLike[str] = "memory",
    dtype: str = "float32",
) -> "FrozenFeatures":
    """Returns an input_fn with which a Keras model's Estimator runs the frozen layers only once per example.

        >>> train_input_fn = et.input_fns.frozen_features(eval_input_fn, batch_size=4, shuffle=True)
        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=1000)

    When training starts, the model's leading layers that are frozen (`trainable = False`) and deterministic run over
    all examples, and their outputs are cached. Each step then runs only the rest of the model. Losses, checkpoints,
    evaluation, prediction and export remain those of the whole model.

    Args:
      examples: an input_fn that returns each example once, in a fixed order: one epoch, neither shuffled nor augmented.
        The frozen layers run on batches of its size.
      batch_size, num_epochs, shuffle, seed: as for `image_files`; the same seed gives the same order.
      cache: "memory", or a local directory. Later runs reuse the directory as long as the frozen layers, their weights,
        `dtype` and the examples are the same, and continue an interrupted fill; other processes wait for it. To find
        out whether the examples are the same, each process reads them once and compares their SHA-256, or what a method
        `fingerprint()` of the input_fn returns.
      dtype: the dtype in which float32 features are cached. "float16" takes half the space and rounds features to 11
        bits; losses then differ in the third or fourth digit.

    Features stay in memory as long as the input_fn and the Estimator exist, so later calls of `train` reuse them. If
    they take at most half of the free memory of each GPU that trains, they are copied there, except in a cluster.

    Raises:
      TypeError: `examples` is not a function.
      ValueError: `dtype` is invalid, or `batch_size` is not positive. From `train`: the model cannot be split (it is a
        subclassed model, has no leading frozen layers, or has Dropout, augmentation or a trainable BatchNormalization
        before frozen layers), the examples are endless or not dense tensors of one shape, or a feature overflows
        float16. From `evaluate` and `predict`, which need an input_fn of the examples instead.
      MemoryError, OSError: from `train`, if the features do not fit in memory or on the disk.
    """
    if dtype not in _DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size!r}")
    check_input_fn(examples, "examples")
    directory = None if cache == "memory" else os.fspath(cache)
    return FrozenFeatures(examples, directory, dtype, batch_size, num_epochs, shuffle, seed)


@dataclasses.dataclass(frozen=True, eq=False)
class FrozenFeatures:
    """The arguments of `frozen_features`; implements the protocol `StartsAnywhere`."""

    examples: Callable
    directory: str | None  # of the cache, or None for memory
    dtype: str
    batch_size: int
    num_epochs: int | None
    shuffle: bool
    seed: int | None
    first: int = 0  # examples to skip at the beginning, counted over all epochs and input pipelines

    def __call__(self) -> NoReturn:
        raise ValueError(
            "frozen_features only works with train() of a Keras model's Estimator; pass an input_fn of the examples to "
            "evaluate, predict and other models."
        )

    def starting_at(self, examples: int, seed: int) -> "FrozenFeatures":
        if self.seed is not None:
            seed = self.seed
        return dataclasses.replace(self, first=examples, seed=seed)

    @unconverted
    def batches(
        self, columns: Sequence[np.ndarray], structure: Any, input_context: tf.distribute.InputContext
    ) -> tf.data.Dataset:
        """Returns a dataset over `columns`, which are arrays of (examples, ...) for the leaves of `structure`."""
        batches = number_batches(
            len(columns[0]),
            batch_size=self.batch_size,
            num_epochs=self.num_epochs,
            shuffle=self.shuffle,
            seed=self.seed,
            start=share_of_pipeline(self.first, input_context),
        )
        take = functools.partial(rows_of, columns, structure)
        return batches.map(take, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
