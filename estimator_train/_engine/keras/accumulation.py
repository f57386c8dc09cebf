"""Gradient accumulation: one update of a Keras model from the gradients of several batches."""

import tensorflow as tf

from estimator_train._engine.keras.adapter import Adapter
from estimator_train._engine.keras.protocols import Model


class AccumulatedGradients:
    """The gradients of several batches: `add` takes those of one, `update` applies the mean."""

    def __init__(self, adapter: Adapter, model: Model) -> None:
        self._adapter = adapter
        self._model = model
        self.examples = tf.Variable(0, dtype=tf.int64, trainable=False)  # of these batches, over all replicas
        self._sums: list[tf.Variable] = []  # one for each trainable variable, created by the first step
        self._has_gradient: set[int] = set()  # the positions of the variables that had a gradient in a traced batch

    def add(self, gradients: list[tf.Tensor | None]) -> None:
        """Adds a replica's gradients of the trainable variables, None for a variable without one."""
        if not self._sums:
            self._sums = [_zeros(variable) for variable in self._model.trainable_variables]
        for position, (total, gradient) in enumerate(zip(self._sums, gradients, strict=True)):
            if gradient is not None:
                self._has_gradient.add(position)
                total.assign_add(tf.convert_to_tensor(gradient))

    def update(self, batches: tf.Tensor) -> None:
        """Applies the mean of the gradients accumulated since the last update, over `batches` batches."""
        means = [
            total / tf.cast(batches, total.dtype) if position in self._has_gradient else None
            for position, total in enumerate(self._sums)
        ]
        self._adapter.apply_gradients(self._model, means)
        self.clear()

    def clear(self) -> None:
        """Resets the accumulated gradients, so that batches of a failed step do not count for the next one."""
        for total in self._sums:
            total.assign(tf.zeros(total.shape, total.dtype))  # zeros_like would read all replicas


def _zeros(variable: tf.Variable) -> tf.Variable:
    """Returns a variable for the sum of a variable's gradients, with a separate value on each replica."""
    with tf.init_scope():
        return tf.Variable(
            tf.zeros(variable.shape, variable.dtype),
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
