"""Heads of image models: the last layer, the loss and the metrics of a task."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras


class Head(NamedTuple):
    """The end of a model.

    A classification ends in a softmax; a multilabel one in a sigmoid for each label; a regression in a number. Labels
    of a regression have their own scale: the layer before learns to tell the deviation from their mean, in standard
    deviations, whatever the learning rate is made for.

    Args:
      units: how many classes, labels or numbers.
      task: "classification", "multilabel" or "regression".
      label_moments: mean and standard deviation of the labels of a regression.
      dropout: share of the features that is dropped before these layers in training; None: as the model has it.
    """

    units: int
    task: str = "classification"
    label_moments: tuple[float, float] | None = None
    dropout: float | None = None

    def layers(self, dropout: float = 0.0) -> list[keras.layers.Layer]:
        """Returns the last layers; they give float32 of shape (batch, units), also in mixed precision.

        `dropout`: that of the model, where the head has none.
        """
        rate = dropout if self.dropout is None else self.dropout
        activation = {"classification": "softmax", "multilabel": "sigmoid", "regression": None}[self.task]
        layers = [keras.layers.Dropout(rate)] if rate else []
        layers.append(keras.layers.Dense(self.units, activation, dtype="float32"))
        if self.label_moments is not None:
            mean, deviation = self.label_moments
            layers.append(keras.layers.Rescaling(deviation, offset=mean, dtype="float32"))
        return layers

    def outputs(self, features: tf.Tensor, dropout: float = 0.0) -> tf.Tensor:
        """Returns what `layers` make of `features`, of shape (batch, number of features)."""
        for layer in self.layers(dropout):
            features = layer(features)
        return features

    def compile(self, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
        """Compiles `model` with the loss and the metrics of the task."""
        loss, metric = {
            "classification": ("categorical_crossentropy", "accuracy"),
            "multilabel": ("binary_crossentropy", "binary_accuracy"),
            "regression": ("mean_squared_error", "mean_absolute_error"),
        }[self.task]
        model.compile(optimizer, loss, metrics=[metric])
