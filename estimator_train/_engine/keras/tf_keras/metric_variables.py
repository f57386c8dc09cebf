"""Creates the variables of losses and metrics before the first step; see `StepProgram.build_variables`."""

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras import private_tensorflow
from estimator_train._engine.keras.private_keras import compile_arguments
from estimator_train._engine.keras.protocols import Trace
from estimator_train._engine.types import Nest

_CHOSEN_BY_SHAPES = ("acc", "accuracy", "ce", "crossentropy")
_GUESSED = (
    'Keras takes metrics=["acc"] for categorical_accuracy, because the last size of the labels is unknown. If they are '
    'class indices, name "sparse_categorical_accuracy", or give from_generator an output_signature; see docs/keras.md'
)


def build_metrics(model: keras.Model, trace: Trace) -> None:
    """Creates variables of the compiled losses and metrics of a functional `model`; see `Adapter.build_variables`."""
    # They depend on the data: "accuracy" is another metric for other shapes of labels and predictions, for example.
    if model.inputs is None or model.compiled_metrics is None or model.compiled_metrics.built:
        return

    # The user's losses and metrics are converted by AutoGraph, as in the step.
    compiled_loss = private_tensorflow.with_autograph(model.compiled_loss)
    compute_metrics = private_tensorflow.with_autograph(model.compute_metrics)

    guesses: list[bool] = []

    def update(data: Nest) -> None:
        features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        predictions = tf.nest.map_structure(_placeholder, model.output)
        compiled_loss(labels, predictions, weights)
        compute_metrics(features, labels, predictions, weights)
        guesses.append(_are_metrics_guessed(model, labels, predictions))

    trace(update)
    if any(guesses):
        tf.get_logger().warning(_GUESSED)


def _are_metrics_guessed(model: keras.Model, labels: Nest, predictions: Nest) -> bool:
    """Returns whether Keras resolved "acc" and the like although the last size of some labels is unknown."""
    given = compile_arguments(model)
    names = tf.nest.flatten([given.get("metrics"), given.get("weighted_metrics")])
    if not any(name in _CHOSEN_BY_SHAPES for name in names if isinstance(name, str)):
        return False
    pairs = zip(tf.nest.flatten(labels), tf.nest.flatten(predictions), strict=False)
    return any(
        label.shape.rank == prediction.shape.rank and label.shape[-1] is None and prediction.shape[-1] != 1
        for label, prediction in pairs
    )


def _placeholder(output: tf.Tensor) -> tf.Tensor:
    zeros = tf.zeros([size or 0 for size in output.shape], output.dtype)
    return tf.raw_ops.PlaceholderWithDefault(input=zeros, shape=output.shape)
