"""Heads of image models: the last layer, the loss and the metrics of a task."""

from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras


class _Output(NamedTuple):
    name: str  # of the last layer
    activation: str | None
    loss: str
    metric: str


_OUTPUTS = {
    "classification": _Output("probabilities", "softmax", "categorical_crossentropy", "accuracy"),
    "multilabel": _Output("probabilities", "sigmoid", "binary_crossentropy", "binary_accuracy"),
    "regression": _Output("value", None, "mean_squared_error", "mean_absolute_error"),
}


class Head(NamedTuple):
    """The last layers, the loss and the metrics of a model.

    Classification ends in a softmax, multilabel classification in a sigmoid per label, regression in a number. Since
    regression labels can have any scale, the last dense layer predicts their deviation from the mean in standard
    deviations, so that the usual learning rates work.

        >>> [type(layer).__name__ for layer in Head(1, "regression", label_moments=(50.0, 9.0)).layers()]
        ['Dense', 'Rescaling']

    Args:
      units: number of classes, labels or numbers.
      task: "classification", "multilabel" or "regression".
      label_moments: mean and standard deviation of a regression's labels.
      dropout: dropout rate before these layers; None uses the model's own.
    """

    units: int
    task: str = "classification"
    label_moments: tuple[float, float] | None = None
    dropout: float | None = None

    def layers(self, dropout: float = 0.0) -> list[keras.layers.Layer]:
        """Returns the last layers, whose outputs are float32 of shape (batch, units) even in mixed precision.

        The last one is called probabilities or value, and so is the output of an exported model. `dropout` is the
        model's own rate, used if the head has none.
        """
        rate = dropout if self.dropout is None else self.dropout
        layers = [keras.layers.Dropout(rate)] if rate else []
        name, activation, *_ = _OUTPUTS[self.task]
        if self.label_moments is None:
            return [*layers, keras.layers.Dense(self.units, activation, dtype="float32", name=name)]
        mean, deviation = self.label_moments
        layers.append(keras.layers.Dense(self.units, activation, dtype="float32"))
        return [*layers, keras.layers.Rescaling(deviation, offset=mean, dtype="float32", name=name)]

    def outputs(self, features: tf.Tensor, dropout: float = 0.0) -> tf.Tensor:
        """Applies `layers` to `features` of shape (batch, number of features)."""
        for layer in self.layers(dropout):
            features = layer(features)
        return features

    def compile(self, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
        """Compiles `model` with the loss and the metrics of the task."""
        output = _OUTPUTS[self.task]
        model.compile(optimizer, output.loss, metrics=[output.metric])
