"""The adapter for tf_keras models; `generations` lists its functions."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras
from tf_keras import layers

from estimator_train.checkpoints.object_based import SavedParts, parts_by_key
from estimator_train.distribution import synchronous
from estimator_train.keras import mixed_precision, step_variables
from estimator_train.keras.cloning import check, clone, finalize_state, in_eager_mode, lookups, statistics
from estimator_train.session import private_names

__all__ = ["check", "clone", "finalize_state", "in_eager_mode", "lookups", "statistics"]  # and the functions below

WEIGHTS_FILE = "weights.h5"

clone_layer_with = mixed_precision.clone_layer
build_with_precision = mixed_precision.build
scale_loss = mixed_precision.scale_loss


def scales_loss(model):
    """Whether the optimizer of `model` scales the loss."""
    return isinstance(model.optimizer, keras.mixed_precision.LossScaleOptimizer)


def check_trains_on(model, strategy):
    """Raises ValueError where the replicas of `strategy` cannot train `model`."""


# Variables and checkpoints


def saved_parts(model):
    """The `SavedParts` of `model`."""
    parts = (model, *parts_by_key(model).values())
    built = [part for part in parts if isinstance(part, layers.Layer) and part.built]
    weights = [weight for part in built if not isinstance(part, keras.metrics.Metric) for weight in part.weights]
    return SavedParts(model, weights, model.optimizer)


def variables(model):
    """The variables that `model` has so far, a list."""
    return model.weights if model.built else []


def finish_variables(model, made):
    """Completes variables that have just been made or restored, in the scope of the model's strategy."""


def build_slots(model):
    """Makes the variables of the optimizer, where they have to be there before a checkpoint is restored."""


def has_slots(model):
    """Whether the variables that `build_slots` would make are there."""
    return False


def hyperparameters(model):
    """The hyperparameters of the model's optimizer that are variables, a dict of their names to TensorFlow's."""
    return private_names.hyperparameters(model.optimizer)


# Steps


def inputs(model):
    """The model's inputs, a dict of their names to what has their shapes and dtypes; empty where it does not tell."""
    return dict(zip(model.input_names, model.inputs, strict=True)) if model.inputs else {}


def output_names(model):
    """The names of the model's outputs, a list; None where it does not tell."""
    return model.output_names


def is_own_step(model, step):
    """Whether the class of `model` has left the method of the name `step` as it is in Keras."""
    return getattr(type(model), step) is getattr(keras.Model, step)


def build_variables(model, strategy, element_spec, data, step):
    """Creates what the first `step`, "train_step" or "test_step", would create, as far as it is known.

    Args:
      element_spec: the `tf.TypeSpec` of the batches of all replicas.
      data: what makes of a replica's batch what Keras takes: (features[, labels[, sample weights]]).
    """
    if step == "train_step":
        with strategy.scope():
            learning_rate(model.optimizer)  # a legacy optimizer creates its variables when asked
    if is_own_step(model, step):
        if step == "train_step":
            step_variables.of_optimizer(model, strategy)
        step_variables.of_metrics(model, strategy, element_spec, data)


def run_step(model, strategy, step, batch):
    """Runs `step` on every replica; returns (logs over all replicas, whatever else `step` returns, of each replica).

    `step` takes a replica's batch and returns (logs, ...), the logs a dict of names to tensors. Keras makes
    metrics agree and sums what a step returns itself. A loss of its own is divided by the number of replicas, so that
    the sum is the loss of the whole batch.
    """
    logs, *others = strategy.run(step, args=(batch,))
    # Where a process has one replica, the values themselves do not tell whether they agree.
    of_metrics = {id(value) for value in private_names.last_metric_results(model.metrics)}

    def reduced(value):
        agrees = not synchronous.spans_workers(strategy) or id(value) in of_metrics
        if isinstance(value, tf.distribute.DistributedValues) or not agrees:
            return strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
        return value

    return {name: reduced(value) for name, value in logs.items()}, *others


def gradients(model, data):
    """The first half of `keras.Model.train_step`: (gradients of the trainable variables, a list; the step's logs)."""
    features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        predictions = model(features, training=True)
        loss = model.compute_loss(features, labels, predictions, weights)
        if scales_loss(model):
            loss = model.optimizer.get_scaled_loss(loss)
    found = tape.gradient(loss, model.trainable_variables)
    return found, model.compute_metrics(features, labels, predictions, weights)


def apply_gradients(model, means):
    """The second half of the step: updates the trainable variables with gradients as `gradients` gives them."""
    if scales_loss(model):
        means = model.optimizer.get_unscaled_gradients(means)
    model.optimizer.apply_gradients(zip(means, model.trainable_variables, strict=True))


def test_and_predict(model, data):
    """Does what Keras' `test_step` and `predict_step` do in one pass: returns (the step's logs, the predictions)."""
    features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
    predictions = model(features, training=False)
    model.compute_loss(features, labels, predictions, weights)
    return model.compute_metrics(features, labels, predictions, weights), predictions


def callback_list(model, callbacks, steps_per_epoch):
    """The `CallbackList` that fit would make, of `callbacks` for `model`.

    Raises:
      ValueError: one of `callbacks` is of Keras 3.
    """
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise ValueError(
                f"The model is of tf_keras, and {callback!r} is of Keras 3; take the callback of tf_keras."
            )
    return keras.callbacks.CallbackList(callbacks, model=model, epochs=None, steps=steps_per_epoch, verbose=0)


def count_step(model, step):
    """Sets by which step fit would be, for callbacks that ask the model, such as TensorBoard."""
    private_names.train_counter(model).assign(step)


def learning_rate(optimizer):
    """The rate of the last update, a float32 scalar; None of what has none, such as optimizers of v1."""
    rate = getattr(optimizer, "learning_rate", None)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):  # a legacy optimizer's
        rate = rate(optimizer.iterations - 1)
    return None if rate is None else tf.cast(rate, tf.float32)


# Files


def load_model(path, custom_objects, safe_mode):
    """Returns the saved model at `path`, and whether it holds a lambda; None for the model if that is refused."""
    with private_names.LoadedLambdas(refused=safe_mode) as lambdas:
        try:
            model = keras.models.load_model(path, custom_objects=custom_objects)
        except ValueError:
            if not (safe_mode and lambdas.found):
                raise
            model = None
    return model, lambdas.found
