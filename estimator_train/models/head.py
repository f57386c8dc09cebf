"""Heads of image models: the last layer, the loss and the metrics of a task."""

from __future__ import annotations

from typing import NamedTuple

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
    """

    units: int
    task: str = "classification"
    label_moments: tuple[float, float] | None = None

    def layers(self) -> list[keras.layers.Layer]:
        """Returns the last layers; they give float32 of shape (batch, units), also in mixed precision."""
        activation = {"classification": "softmax", "multilabel": "sigmoid", "regression": None}[self.task]
        layers = [keras.layers.Dense(self.units, activation, dtype="float32")]
        if self.label_moments is not None:
            mean, deviation = self.label_moments
            layers.append(keras.layers.Rescaling(deviation, offset=mean, dtype="float32"))
        return layers

    def outputs(self, features: keras.KerasTensor) -> keras.KerasTensor:
        """Returns what the layers make of `features`, of shape (batch, number of features)."""
        for layer in self.layers():
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
