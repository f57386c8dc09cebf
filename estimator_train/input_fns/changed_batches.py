"""ChangedBatches: an input_fn whose batches are changed on the devices that train on them."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from estimator_train._engine.distribution.replica_input import call_input_fn
from estimator_train._engine.input_fns.protocols import changed
from estimator_train._engine.keras_forms import check_input_fn


@dataclasses.dataclass(frozen=True, eq=False)
class ChangedBatches:
    """The input_fn that `augmented` and `class_weighted` return; implements the protocol `ChangesTraining`."""

    input_fn: Callable[..., tf.data.Dataset]  # of the original batches, (features, labels[, weights])
    # It takes a batch and a seed, an int64 tensor of shape (2,). Functions that compare equal are compiled once.
    change: Callable[[tuple, tf.Tensor], tuple]

    def __post_init__(self) -> None:
        check_input_fn(self.input_fn)

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        batches = call_input_fn(self.input_fn, **({"input_context": input_context} if input_context else {}))
        return changed(batches, self.change)
