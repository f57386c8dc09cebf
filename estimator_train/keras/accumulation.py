"""Gradients of several batches that make one update of a Keras model."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras


class AccumulatedGradients:
    """Keras' training step in two: `step` adds up gradients, `update` applies their mean.

    Raises:
      ValueError: the model has a training step of its own.
    """

    def __init__(self, model):
        if type(model).train_step is not keras.Model.train_step:
            raise ValueError(
                f"accumulate_steps takes Keras' own training step apart, and {type(model).__name__} overrides "
                "train_step; accumulate there, or leave out accumulate_steps."
            )
        self._model = model
        self._sums = None

    def step(self, data):
        """As `keras.Model.train_step`, without the update."""
        model = self._model
        features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            predictions = model(features, training=True)
            loss = model.compute_loss(features, labels, predictions, weights)
            if self._scales:
                loss = model.optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        if self._sums is None:
            self._sums = [_zeros(variable) for variable in model.trainable_variables]
        for total, gradient in zip(self._sums, gradients, strict=True):
            if gradient is not None:
                total.assign_add(tf.convert_to_tensor(gradient))
        return model.compute_metrics(features, labels, predictions, weights)

    def update(self, batches):
        """Applies the mean of what was added up since the last update, over so many batches."""
        optimizer, variables = self._model.optimizer, self._model.trainable_variables
        means = [total / tf.cast(batches, total.dtype) for total in self._sums]
        if self._scales:
            means = optimizer.get_unscaled_gradients(means)
        optimizer.apply_gradients(zip(means, variables, strict=True))
        self.clear()

    def clear(self):
        """Forgets what was added up: the batches of a step that has failed are not those of the next."""
        for total in self._sums or ():
            total.assign(tf.zeros(total.shape, total.dtype))  # not zeros_like, which reads it from all replicas

    @property
    def _scales(self):
        return isinstance(self._model.optimizer, keras.mixed_precision.LossScaleOptimizer)


def _zeros(variable):
    """A sum of gradients, of which each replica has its own."""
    with tf.init_scope():
        return tf.Variable(
            tf.zeros(variable.shape, variable.dtype),
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
