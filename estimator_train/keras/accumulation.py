"""Gradients of several batches that make one update of a Keras model."""

from __future__ import annotations

import tensorflow as tf


class AccumulatedGradients:
    """Keras' training step in two: `step` adds up gradients, `update` applies their mean.

    Raises:
      ValueError: the model has a training step of its own.
    """

    def __init__(self, adapter, model):
        """`adapter`: what is particular to the model's Keras, see `generations`."""
        if not adapter.is_own_step(model, "train_step"):
            raise ValueError(
                f"accumulate_steps takes Keras' own training step apart, and {type(model).__name__} overrides "
                "train_step; accumulate there, or leave out accumulate_steps."
            )
        self._adapter = adapter
        self._model = model
        self._sums = None

    def step(self, data):
        """As `keras.Model.train_step`, without the update."""
        gradients, logs = self._adapter.gradients(self._model, data)
        if self._sums is None:
            self._sums = [_zeros(variable) for variable in self._model.trainable_variables]
        for total, gradient in zip(self._sums, gradients, strict=True):
            if gradient is not None:
                total.assign_add(tf.convert_to_tensor(gradient))
        return logs

    def update(self, batches):
        """Applies the mean of what was added up since the last update, over so many batches."""
        means = [total / tf.cast(batches, total.dtype) for total in self._sums]
        self._adapter.apply_gradients(self._model, means)
        self.clear()

    def clear(self):
        """Forgets what was added up: the batches of a step that has failed are not those of the next."""
        for total in self._sums or ():
            total.assign(tf.zeros(total.shape, total.dtype))  # not zeros_like, which reads it from all replicas


def _zeros(variable):
    """A sum of gradients, of which each replica has its own."""
    with tf.init_scope():
        return tf.Variable(
            tf.zeros(variable.shape, variable.dtype),
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
