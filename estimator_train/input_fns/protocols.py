"""Optional methods of input_fns. Any object with these methods follows the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf


@runtime_checkable
class PreprocessesOnDevice(Protocol):
    """An input_fn that leaves the end of its preprocessing to the devices that take the batches.

    The Estimator of a Keras model calls `host_batches` instead of the input_fn itself, and `preprocess` on each
    replica, so that less is moved to the devices. Whoever calls the input_fn gets preprocessed batches.
    """

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns the dataset of preprocessed batches."""

    def host_batches(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns the dataset of (features, labels) batches whose features still have to be preprocessed."""

    def preprocess(self, features: Any) -> Any:
        """Returns the features as the model takes them; runs in a compiled step, without AutoGraph.

        It must leave features alone that are preprocessed already: at the end of the data, examples are shared out over
        several replicas, and are preprocessed before. A step that was compiled for one input_fn serves every other with
        an equal `preprocess`: make it a function of the module or a static method.
        """


@runtime_checkable
class StartsAnywhere(Protocol):
    """An input_fn that can begin at an example without reading those before it.

    With `RunConfig(resume_input=True)` the Estimator of a Keras model asks for that in place of reading the data from
    its beginning and dropping what has been trained on.
    """

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns the dataset of (features, labels) batches from the beginning."""

    def starting_at(self, examples: int, seed: int) -> StartsAnywhere:
        """Returns the input_fn of what comes after the first `examples` examples.

        They are counted over all epochs and input pipelines. The order must be the same at every start: `seed`, which
        the checkpoints keep, is for an input_fn that was given none.
        """


@runtime_checkable
class ChangesTraining(Protocol):
    """An input_fn whose batches are changed where a model is trained on them, and nowhere else.

    The Estimator of a Keras model takes the batches of `input_fn`, and in training calls `change` on each replica, in a
    compiled step, without AutoGraph.
    """

    input_fn: Callable[..., tf.data.Dataset]
    change: Callable[[tuple, tf.Tensor], tuple]


@runtime_checkable
class HasFingerprint(Protocol):
    """An input_fn that can say, without reading its examples, whether they are those of an earlier run."""

    def fingerprint(self) -> str:
        """Returns a text that changes when an example does."""


def starting_at(input_fn: Callable, examples: int, seed: int) -> tuple[Callable, int]:
    """(`input_fn` as it begins after the first `examples` examples, how many of these are left to be dropped)"""
    if isinstance(input_fn, StartsAnywhere):
        return input_fn.starting_at(examples, seed), 0
    return input_fn, examples


def without_changes(input_fn: Callable) -> tuple[Callable, tuple[Callable, ...]]:
    """(`input_fn` without the changes of `ChangesTraining`, these in their order)"""
    changes: tuple[Callable, ...] = ()
    while isinstance(input_fn, ChangesTraining):
        input_fn, changes = input_fn.input_fn, (input_fn.change, *changes)
    return input_fn, changes


def on_host_and_device(input_fn: Callable) -> tuple[Callable, Callable | None]:
    """(the input_fn of what the host prepares, what each device then makes of its features: a function or None)"""
    if isinstance(input_fn, PreprocessesOnDevice):
        return input_fn.host_batches, input_fn.preprocess
    return input_fn, None
