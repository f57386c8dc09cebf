"""Protocols of Keras' objects: what the modules for either Keras use of them."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import tensorflow as tf

from estimator_train._engine.types import Nest

Step: TypeAlias = Callable[[Nest], tuple]  # of a replica, with its batch
Trace: TypeAlias = Callable[[Callable[[Nest], object]], None]  # of a function of a replica's batch in Keras' form
CustomObjects: TypeAlias = Mapping[str, object]  # classes and functions by name
Logs: TypeAlias = dict[str, Nest]  # the loss and metrics by name, which Keras 3 may nest


class Variable(Protocol):
    """A variable of a model: one of TensorFlow, or one of Keras 3, which wraps one of TensorFlow."""

    name: str
    shape: tf.TensorShape
    dtype: tf.DType


class Optimizer(Protocol):
    """An optimizer of a model, which may be a legacy one, or one of tf.compat.v1 in Keras' wrapper."""

    iterations: tf.Variable


class Layer(Protocol):
    name: str
    built: bool
    trainable_variables: list[Variable]

    def __call__(self, inputs: Nest, *, training: bool | None = None) -> Nest: ...


CloneLayer: TypeAlias = Callable[[Layer], Layer]


class Model(Layer, Protocol):
    optimizer: Optimizer | None
    loss: object
    jit_compile: bool
    run_eagerly: bool

    def train_step(self, data: Nest) -> Logs: ...
    def test_step(self, data: Nest) -> Logs: ...
    def predict_step(self, data: Nest) -> Nest: ...
    def compute_metrics(self, x: Nest, y: Nest, y_pred: Nest, sample_weight: Nest) -> Logs: ...
    def reset_metrics(self) -> None: ...


class FrozenPart(Layer, Protocol):
    """The frozen leading layers of a model, as a model."""

    weights: list[tf.Variable]

    def fingerprint(self) -> str:
        """Returns a hex digest of what the outputs depend on: the layers' settings, except names, and their weights."""


class BatchIterator(Protocol):
    """An iterator over batches of all replicas."""

    element_spec: Nest  # of tf.TypeSpecs

    def get_next(self) -> Nest: ...
    def get_next_as_optional(self) -> tf.experimental.Optional: ...
