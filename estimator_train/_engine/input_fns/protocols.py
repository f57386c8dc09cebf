"""Protocols for input_fns with optional methods. Any object with the methods of a protocol implements it."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf

from estimator_train._engine.input_fns.order import draw_seed
from estimator_train._engine.input_fns.returned import as_tuple


@runtime_checkable
class PreprocessesOnDevice(Protocol):
    """An input_fn whose last preprocessing step can run on the device that uses the batch.

    The Estimator of a Keras model calls `host_batches` instead of the input_fn itself, and calls `preprocess` on each
    replica, which reduces the data copied to the devices. Calling the input_fn directly returns preprocessed batches.
    """

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset: ...

    def host_batches(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns the dataset of (features, labels) batches with features that have not been preprocessed yet."""

    def preprocess(self, features: Any) -> Any:
        """Returns the features that the model takes; runs in a compiled step, without AutoGraph.

        Features that are already preprocessed must be returned unchanged, because the last examples are preprocessed
        before they are split over several replicas. A compiled step is reused for all input_fns whose `preprocess`
        compares equal, so define it as a module-level function or a static method.
        """


@runtime_checkable
class StartsAnywhere(Protocol):
    """An input_fn that can start at any example without reading earlier ones.

    With `RunConfig(resume_input=True)`, the Estimator of a Keras model calls `starting_at` instead of reading the data
    from the beginning and dropping the examples that it has already trained on.
    """

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset: ...

    def starting_at(self, examples: int, seed: int) -> "StartsAnywhere":
        """Returns an input_fn that skips the first `examples` examples, counted over all epochs and input pipelines.

        The order must be the same on every start. An input_fn that was created without a seed should use `seed`, which
        is stored in checkpoints.
        """


@runtime_checkable
class ChangesTraining(Protocol):
    """An input_fn whose batches are changed for training, and for training only.

    An Estimator reads the batches of `input_fn`. In training, that of a Keras model calls `change` on each replica,
    inside a compiled step, without AutoGraph; that of a model_fn maps it over the dataset.
    """

    input_fn: Callable[..., tf.data.Dataset]
    change: Callable[[tuple, tf.Tensor], tuple]


@runtime_checkable
class NeedsClasses(Protocol):
    """The `change` of a `ChangesTraining` that fits a certain number of classes."""

    def check_classes(self, number: int) -> None:
        """Raises UnsuitableError if the model has another number of classes than the change is for."""


@runtime_checkable
class HasFingerprint(Protocol):
    """An input_fn that can tell, without reading its examples, whether they have changed since an earlier run."""

    def fingerprint(self) -> str:
        """Returns a string that changes whenever an example changes."""


def starting_at(input_fn: Callable, examples: int, seed: int) -> tuple[Callable, int]:
    """Returns (`input_fn` starting after `examples` examples if it can, the number of examples left to drop)."""
    if isinstance(input_fn, StartsAnywhere):
        return input_fn.starting_at(examples, seed), 0
    return input_fn, examples


def without_changes(input_fn: Callable) -> tuple[Callable, tuple[Callable, ...]]:
    """Returns (`input_fn` without its `ChangesTraining` wrappers, a tuple of their changes in order)."""
    changes: tuple[Callable, ...] = ()
    while isinstance(input_fn, ChangesTraining):
        input_fn, changes = input_fn.input_fn, (input_fn.change, *changes)
    return input_fn, changes


def changed(batches: tf.data.Dataset, change: Callable[[tuple, tf.Tensor], tuple]) -> tf.data.Dataset:
    """Returns the dataset `batches` with each batch changed, by random numbers of its own."""
    seed = draw_seed()
    return batches.enumerate().map(
        lambda number, batch: change(as_tuple(batch), tf.stack([seed, number])), num_parallel_calls=tf.data.AUTOTUNE
    )


def on_host_and_device(input_fn: Callable) -> tuple[Callable, Callable | None]:
    """Returns (the input_fn to call on the host, the function to apply to its features on each device, or None)."""
    if isinstance(input_fn, PreprocessesOnDevice):
        return input_fn.host_batches, input_fn.preprocess
    return input_fn, None
