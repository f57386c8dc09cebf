"""The adapter for tf_keras models; `generations` lists its functions."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras
from tf_keras import layers

from estimator_train._engine.checkpoints.object_based import SavedParts, parts_by_key
from estimator_train._engine.distribution import synchronous
from estimator_train._engine.keras import cloning, mixed_precision, step_variables
from estimator_train._engine.keras.cloning import (
    check,
    clone,
    in_eager_mode,
    layers_within,
    lookups,
    statistics,
)
from estimator_train._engine.keras.tf_keras import private_tf_keras
from estimator_train._engine.keras.unsuitable import UnsuitableModelError

__all__ = ["check", "clone", "in_eager_mode", "lookups", "statistics"]  # and the functions below

WEIGHTS_FILE = "weights.h5"

clone_layer_with = mixed_precision.clone_layer
build_with_precision = mixed_precision.build
scale_loss = mixed_precision.scale_loss


def scales_loss(model):
    """Returns whether the optimizer of `model` scales the loss."""
    return isinstance(model.optimizer, keras.mixed_precision.LossScaleOptimizer)


def check_trains_on(model, strategy):
    """Does nothing: a tf_keras model trains on the replicas of any strategy."""


# Variables and checkpoints


def saved_parts(model):
    """Returns the `SavedParts` of `model`."""
    parts = (model, *parts_by_key(model).values())
    built = [part for part in parts if isinstance(part, layers.Layer) and part.built]
    weights = [weight for part in built if not isinstance(part, keras.metrics.Metric) for weight in part.weights]
    return SavedParts(model, weights, trainable_variables(model), model.optimizer)


def variables(model):
    """Returns a list of the variables that `model` has created so far."""
    return model.weights if model.built else []


def trainable_variables(model):
    """Returns a list of the variables that `model` trains, as far as it has created them."""
    return model.trainable_variables if model.built else []


def finalize_state(model):
    """Makes layers and optimizers use restored state, in the scope of the model's strategy."""
    cloning.finalize_state(model)
    for nadam in _nadams(model):
        private_tf_keras.complete_product(nadam)


def finish_variables(model, made):
    """Does nothing: tf_keras needs no work on new or restored variables."""


def build_slots(model):
    """Does nothing: the optimizer's variables may be created after a checkpoint is restored."""


def prepare_optimizers(model):
    """Prepares the optimizers of a copy of the model for compiled steps."""
    for nadam in _nadams(model):
        private_tf_keras.multiply_momenta_once(nadam)


def _nadams(model):
    # Variables are left alone: one that is asked for an attribute may sum over the processes of a cluster.
    parts = [part for part in tf.train.TrackableView(model).descendants() if not isinstance(part, tf.Variable)]
    # A LossScaleOptimizer has the parts of its optimizer, but not the optimizer, as its parts.
    optimizers = [getattr(part, "inner_optimizer", part) for part in parts]
    return [optimizer for optimizer in optimizers if isinstance(optimizer, keras.optimizers.Nadam)]


def has_slots(model):
    """Returns whether the variables that `build_slots` would create exist."""
    return False


def hyperparameters(model):
    """Returns the hyperparameters of the model's optimizer that are variables, a dict of names to variables."""
    return private_tf_keras.hyperparameters(model.optimizer)


# Steps


def inputs(model):
    """Returns a dict of the names of the model's inputs to their symbolic tensors; empty if they are unknown."""
    return dict(zip(model.input_names, model.inputs, strict=True)) if model.inputs else {}


def output_names(model):
    """Returns a list of the names of the model's outputs, or None if they are unknown."""
    return model.output_names


def is_own_step(model, step):
    """Returns whether the class of `model` does not override Keras' method `step`."""
    return getattr(type(model), step) is getattr(keras.Model, step)


def build_variables(model, strategy, element_spec, data, step):
    """Creates the variables that the first `step`, "train_step" or "test_step", would create, as far as possible.

    Args:
      model: the Keras model.
      strategy: the strategy in whose scope it was created.
      element_spec: the `tf.TypeSpec` of the batches of all replicas.
      data: function from a replica's batch to Keras' form, (features[, labels[, sample weights]]).
      step: the name of the step.
    """
    if step == "train_step":
        with strategy.scope():
            learning_rate(model.optimizer)  # a legacy optimizer creates its variables when asked
    if is_own_step(model, step):
        if step == "train_step":
            with strategy.scope():
                step_variables.of_optimizer(model)
        step_variables.of_metrics(model, strategy, element_spec, data)


def random_generators(model):
    """Returns a list of the random generators whose state is not in checkpoints, for `StepDraws`."""
    return private_tf_keras.random_generators(layers_within(model))


def reset_states(model):
    """Resets the states of stateful recurrent layers, which would otherwise continue from the run before."""
    for layer in layers_within(model):
        if isinstance(layer, layers.RNN) and layer.stateful and layer.built:
            layer.reset_states()


def run_step(model, strategy, step, batch):
    """Runs `step` on every replica; returns (logs over all replicas, the other values of `step` per replica).

    `step` takes a replica's batch and returns (logs, ...), where logs is a dict of names to tensors. Keras aggregates
    metrics over replicas, and sums other values in the logs. Its own loss is divided by the number of replicas, so the
    sum is the loss of the whole batch.
    """
    logs, *others = strategy.run(step, args=(batch,))
    # With one replica per process, the values do not show whether they are aggregated.
    of_metrics = {id(value) for value in private_tf_keras.last_metric_results(model.metrics)}

    def reduced(value):
        agrees = not synchronous.spans_workers(strategy) or id(value) in of_metrics
        if isinstance(value, tf.distribute.DistributedValues) or not agrees:
            return strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
        return value

    return {name: reduced(value) for name, value in logs.items()}, *others


def gradients(model, data):
    """Runs the first half of `keras.Model.train_step`; returns (gradients of the trainable variables, logs)."""
    features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        predictions = model(features, training=True)
        loss = model.compute_loss(features, labels, predictions, weights)
        if scales_loss(model):
            loss = model.optimizer.get_scaled_loss(loss)
    found = tape.gradient(loss, model.trainable_variables)
    return found, model.compute_metrics(features, labels, predictions, weights)


def apply_gradients(model, means):
    """Runs the second half of the step: updates the trainable variables with the result of `gradients`."""
    if scales_loss(model):
        means = model.optimizer.get_unscaled_gradients(means)
    model.optimizer.apply_gradients(zip(means, model.trainable_variables, strict=True))


def test_and_predict(model, data):
    """Does the work of Keras' `test_step` and `predict_step` in one pass; returns (logs, predictions)."""
    features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
    predictions = model(features, training=False)
    model.compute_loss(features, labels, predictions, weights)
    return model.compute_metrics(features, labels, predictions, weights), predictions


def callback_list(model, callbacks, steps_per_epoch, epochs):
    """Returns the `CallbackList` that fit would create from `callbacks` for `model`.

    Raises:
      ValueError: one of `callbacks` is from Keras 3.
    """
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise UnsuitableModelError(
                f"The model is of tf_keras, but {callback!r} is of Keras 3; use the tf_keras callback."
            )
    return keras.callbacks.CallbackList(callbacks, model=model, epochs=epochs, steps=steps_per_epoch, verbose=0)


def count_step(model, step):
    """Sets the step counter of fit, for callbacks that read it from the model, such as TensorBoard."""
    private_tf_keras.train_counter(model).assign(step)


def learning_rate(optimizer):
    """Returns the learning rate of the last update, a float32 scalar, or None if unknown, as for v1 optimizers."""
    rate = getattr(optimizer, "learning_rate", None)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):  # a legacy optimizer's
        rate = rate(optimizer.iterations - 1)
    return None if rate is None else tf.cast(rate, tf.float32)


# Files


def load_model(path, custom_objects, safe_mode):
    """Returns the saved model at `path` and whether it has a lambda; the model is None if `safe_mode` forbids it."""
    with private_tf_keras.LoadedLambdas(refused=safe_mode) as lambdas:
        try:
            model = keras.models.load_model(path, custom_objects=custom_objects)
        except ValueError:
            if not (safe_mode and lambdas.found):
                raise
            model = None
    return model, lambdas.found
