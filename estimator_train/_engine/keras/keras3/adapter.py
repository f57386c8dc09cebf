"""The adapter for Keras 3 models on TensorFlow; `generations` lists its functions."""

from __future__ import annotations

import contextlib
import functools

import keras
import tensorflow as tf

from estimator_train._engine.checkpoints.object_based import SavedParts, parts_by_key
from estimator_train._engine.keras import private_tensorflow
from estimator_train._engine.keras.keras3 import private_keras3
from estimator_train._engine.keras.keras3_cloning import (
    all_layers,
    build_with_precision,
    check,
    clone,
    clone_layer_with,
    lookups,
    output_names,
    scale_loss,
    scales_loss,
)
from estimator_train._engine.keras.unsuitable import UnsuitableModelError

__all__ = [  # and the functions below
    "build_with_precision",
    "check",
    "clone",
    "clone_layer_with",
    "lookups",
    "output_names",
    "scale_loss",
]

WEIGHTS_FILE = "model.weights.h5"

_SEED_DISTANCE = 1_000_003  # between the seeds of two replicas


def check_trains_on(model, strategy):
    """Raises ValueError if the replicas of `strategy` cannot train `model`."""
    if scales_loss(model) and strategy.num_replicas_in_sync > 1:
        raise UnsuitableModelError(
            f"{model.name} scales its loss, as float16 needs, which Keras 3 cannot do on "
            f"{strategy.num_replicas_in_sync} replicas (keras issue 18666); use bfloat16, or train on one replica."
        )


def in_eager_mode(model, custom_objects, seed):
    """Returns `model`, because Keras 3 does not support v1 graphs."""
    return model


# Variables and checkpoints


def saved_parts(model):
    """Returns the `SavedParts` of `model`.

    Keras 3's variables wrap TensorFlow's; asynchronous checkpoints and SavedModels do not support these wrappers, and
    TensorFlow finds neither layers in lists nor the state of random generators. The root is therefore a tree of
    TensorFlow variables with the names that they have in the model, so that `tf.train.Checkpoint(model).read(path)`
    can read it. Variables that TensorFlow does not find are below `estimator_untracked`.
    """
    found, nodes, alive = set(), {}, []

    def copied(part):
        if isinstance(part, keras.Variable):
            found.add(id(part.value))
            return part.value
        if isinstance(part, (tf.Variable, tf.saved_model.experimental.TrackableResource, tf.saved_model.Asset)):
            return part
        if id(part) not in nodes:
            is_optimizer = isinstance(part, keras.optimizers.Optimizer)
            children = _parts_of_optimizer(part) if is_optimizer else tf.train.TrackableView.children(part)
            alive.append(children)  # the id of a deleted object may be reused
            node = nodes[id(part)] = tf.Module()
            for name, child in children.items():
                setattr(node, name, copied(child))
        return nodes[id(part)]

    root = copied(model)
    root.estimator_untracked = _without(found, model, set())
    weights = [part for part in parts_by_key(root).values() if isinstance(part, tf.Variable)]
    return SavedParts(root, weights, trainable_variables(model), None)


def _parts_of_optimizer(optimizer):
    """Returns the parts of an optimizer to save, by name.

    The list of its variables lacks the learning rate, which is saved as a hyperparameter.
    """
    rate = private_keras3.learning_rate_or_schedule(optimizer)
    listed = tf.Module()
    for number, variable in enumerate(private_keras3.optimizer_variables(optimizer)):
        if variable is not rate:
            setattr(listed, str(number), variable)
    return private_keras3.parts_of_optimizer(optimizer) | {"_variables": listed}


def _without(found, layer, seen):
    """Returns a tree of the variables of a layer and its sublayers whose ids are not in `found`.

    Its names do not depend on which layers have already created their variables. `seen` has the ids of layers that are
    already in the tree.
    """
    tree = tf.Module()
    seen.add(id(layer))
    sublayers = private_keras3.sublayers(layer)
    of_sublayers = {id(weight) for sublayer in sublayers for weight in sublayer.weights}
    own = [weight for weight in layer.weights if id(weight) not in of_sublayers]
    for name, variables in (("weight", own), ("seed", private_keras3.seed_states(layer))):
        for index, variable in enumerate(variables):
            if id(variable.value) not in found:
                setattr(tree, f"{name}{index}", variable.value)
    for index, sublayer in enumerate(sublayers):
        if id(sublayer) not in seen:
            setattr(tree, f"layer{index}", _without(found, sublayer, seen))
    return tree


def variables(model):
    """Returns a list of the variables that `model` and its optimizers have created so far."""
    return [*model.variables, *(variable for optimizer in _optimizers(model) for variable in optimizer.variables)]


def trainable_variables(model):
    """Returns a list of the TensorFlow variables that `model` trains, as far as it has created them."""
    return [variable.value for variable in model.trainable_variables]


def _optimizers(model):
    return [part for part in vars(model).values() if isinstance(part, keras.optimizers.Optimizer)]


def build_slots(model):
    """Creates the variables of the optimizer if they must exist before a checkpoint is restored."""
    if model.optimizer is not None and model.trainable_variables:
        model.optimizer.build(model.trainable_variables)


def prepare_optimizers(model):
    """Does nothing: all state of Keras 3's optimizers is in variables."""


def has_slots(model):
    """Returns whether the variables that `build_slots` would create exist."""
    return model.optimizer is not None and model.optimizer.built


def hyperparameters(model):
    """Returns the hyperparameters of the model's optimizer that are variables, a dict of names to variables."""
    if model.optimizer is None:
        return {}
    rate = private_keras3.learning_rate_or_schedule(getattr(model.optimizer, "inner_optimizer", model.optimizer))
    return {"learning_rate": rate.value} if isinstance(rate, keras.Variable) else {}


def finalize_state(model):
    """Makes layers use restored state, in the scope of the model's strategy.

    Normalization computes with tensors derived from its variables.
    """
    for layer in _normalizations(model):
        layer.finalize_state()
    finish_variables(model, model.variables)


def finish_variables(model, made):
    """Completes variables that have just been created or restored, in the scope of the model's strategy.

    Random generators have the same state on all replicas, so Dropout would draw the same mask on each. This gives each
    replica a different seed.
    """
    made = set(map(id, made))
    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync == 1:
        return
    distances = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([context.replica_id_in_sync_group * _SEED_DISTANCE, 0], tf.int64)
    )
    for state in [state for layer in all_layers(model) for state in private_keras3.seed_states(layer)]:
        if id(state) in made:
            replicas = map(strategy.experimental_local_results, (state.value, distances))
            for own_state, distance in zip(*replicas, strict=True):
                own_state.assign_add(tf.cast(distance, own_state.dtype))


def statistics(model):
    """Returns the weights that `finalize_state` reads, as a list of bytes."""
    return [weight.numpy().tobytes() for layer in _normalizations(model) for weight in layer.weights]


def _normalizations(model):
    return [layer for layer in all_layers(model) if isinstance(layer, keras.layers.Normalization)]


# Steps


def inputs(model):
    """Returns a dict of the names of the model's inputs to their specs; empty if they are unknown."""
    return {tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in getattr(model, "inputs", None) or ()}


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
    is_own = is_own_step(model, "test_step") and is_own_step(model, step)
    if not is_own and strategy.num_replicas_in_sync == 1:
        return  # the user's step creates them, which only fails on several replicas
    symbols = _symbols(strategy, element_spec, data)
    with strategy.scope():
        if symbols is not None:
            _build_layers_and_metrics(model, symbols, is_own)
        if is_own and step == "train_step":
            build_slots(model)
    if not is_own and step == "train_step":
        _build_slots_for(model, strategy, element_spec, data)


def _build_layers_and_metrics(model, data, is_own):
    if is_own or (is_own_step(model, "test_step") and model.loss is not None):
        private_keras3.compute_output_spec(model.test_step, data)
    elif type(model).call is not keras.Model.call:
        private_keras3.compute_output_spec(model, keras.utils.unpack_x_y_sample_weight(data)[0])


def _build_slots_for(model, strategy, element_spec, data):
    """Creates the optimizers' variables for the variables that the user's `train_step` updates."""
    optimizers = _optimizers(model)
    train_step = private_tensorflow.with_autograph(model.train_step)
    updated = {}

    def record(optimizer, gradients, trainable_variables=None):
        updated[optimizer] = list(trainable_variables or ())

    for optimizer in optimizers:
        optimizer.apply = functools.partial(record, optimizer)
    try:
        _trace_on_replicas(strategy, lambda batch: train_step(data(batch)), element_spec)
    finally:
        for optimizer in optimizers:
            del optimizer.apply
    with strategy.scope():
        for optimizer, variables in updated.items():
            optimizer.build(variables)


def _trace_on_replicas(strategy, function, element_spec):
    """Traces a function of a replica's batch without running it."""

    @tf.function(autograph=False)
    def on_replicas(batch):
        strategy.run(function, args=(batch,))

    on_replicas.get_concrete_function(element_spec)


def _symbols(strategy, element_spec, data):
    """Returns the result of `data` for a replica's batch as KerasTensors, or None if Keras cannot represent it."""
    found = []
    _trace_on_replicas(strategy, lambda batch: found.append(data(batch)), element_spec)
    tensors = [part for part in tf.nest.flatten(found[0]) if part is not None]
    if not all(isinstance(tensor, tf.Tensor) and tensor.shape.rank is not None for tensor in tensors):
        return None
    return tf.nest.map_structure(
        lambda tensor: None if tensor is None else keras.KerasTensor(tensor.shape, tensor.dtype.name), found[0]
    )


def random_generators(model):
    """Returns an empty list: Keras 3's random generators have variables, which checkpoints save."""
    return []


def reset_states(model):
    """Does the same as that of `tf_keras_adapter`."""
    for layer in all_layers(model):
        if isinstance(layer, keras.layers.RNN) and layer.stateful and layer.built:
            layer.reset_state()


def run_step(model, strategy, step, batch):
    """Runs `step` on every replica; returns (logs over all replicas, the other values of `step` per replica).

    `step` takes a replica's batch and returns (logs, ...), where logs is a dict of names to tensors. Inside a replica,
    Keras 3's metrics return only that replica's result, so the overall result is computed outside. Other values in the
    logs are averaged, as in Keras' fit.
    """
    if strategy.num_replicas_in_sync == 1:
        return strategy.run(step, args=(batch,))
    with _recorded_results(model.metrics) as recorded:
        logs, *others = strategy.run(step, args=(batch,))
    results = {}

    def reduced(value):
        metric, key = recorded.get(id(strategy.experimental_local_results(value)[0]), (None, None))
        if metric is None:
            return strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None)
        if id(metric) not in results:
            results[id(metric)] = metric.result()
        return results[id(metric)] if key is None else results[id(metric)][key]

    return {name: reduced(value) for name, value in logs.items()}, *others


@contextlib.contextmanager
def _recorded_results(metrics):
    """Records the results of the metrics' `result()` inside the block, in a dict of ids of tensors to (metric, key).

    If a result is a dict, the key is the tensor's key in it, otherwise None.
    """
    metrics = {id(metric): metric for metric in metrics}.values()
    recorded, kept = {}, []

    def record(metric, result):
        value = result()
        kept.append(value)  # keeps the ids of its tensors from being reused
        parts = value if isinstance(value, dict) else {None: value}
        recorded.update({id(part): (metric, key) for key, part in parts.items()})
        return value

    for metric in metrics:
        metric.result = functools.partial(record, metric, metric.result)
    try:
        yield recorded
    finally:
        for metric in metrics:
            del metric.result


def gradients(model, data):
    """Runs the first half of `keras.Model.train_step`; returns (gradients of the trainable variables, logs)."""
    features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        predictions = model(features, training=True)
        loss = _computed_loss(model, features, labels, predictions, weights, training=True)
        loss = model.optimizer.scale_loss(loss)
    found = tape.gradient(loss, model.trainable_variables)
    return found, model.compute_metrics(features, labels, predictions, weights)


def apply_gradients(model, means):
    """Runs the second half of the step: updates the trainable variables with the result of `gradients`."""
    model.optimizer.apply_gradients(zip(means, model.trainable_variables, strict=True))


def test_and_predict(model, data):
    """Does the work of Keras' `test_step` and `predict_step` in one pass; returns (logs, predictions)."""
    features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
    predictions = model(features, training=False)
    _computed_loss(model, features, labels, predictions, weights, training=False)
    return model.compute_metrics(features, labels, predictions, weights), predictions


def _computed_loss(model, features, labels, predictions, weights, training):
    """Returns the loss for a batch and updates the metric "loss", as Keras' steps do."""
    loss = private_keras3.compute_loss(model, features, labels, predictions, weights, training)
    examples = tf.shape(tf.nest.flatten(features)[0])[0]
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    private_keras3.loss_metric(model).update_state(loss * tf.cast(replicas, loss.dtype), sample_weight=examples)
    return loss


def callback_list(model, callbacks, steps_per_epoch, epochs):
    """Returns the `CallbackList` that fit would create from `callbacks` for `model`.

    Raises:
      ValueError: one of `callbacks` is from tf_keras.
    """
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise UnsuitableModelError(
                f"The model is of Keras 3, but {callback!r} is of tf_keras; use the Keras 3 callback. If it derives "
                "from tf.keras' Callback, set TF_USE_LEGACY_KERAS=0 in the environment."
            )
    return keras.callbacks.CallbackList(callbacks, model=model, epochs=epochs, steps=steps_per_epoch, verbose=0)


def count_step(model, step):
    """Does nothing: Keras 3's callbacks count steps themselves."""


def learning_rate(optimizer):
    """Returns the learning rate of the last update, a float32 scalar, or None without an optimizer."""
    if optimizer is None:
        return None
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = private_keras3.learning_rate_or_schedule(optimizer)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(optimizer.iterations - 1)
    return tf.cast(rate() if callable(rate) else rate, tf.float32)


# Files


def load_model(path, custom_objects, safe_mode):
    """Returns the saved model at `path` and whether it has a lambda; the model is None if `safe_mode` forbids it."""
    try:
        return keras.models.load_model(path, custom_objects=custom_objects), False
    except ValueError as error:
        if "safe_mode=False" not in str(error):  # Keras' message when it refuses a lambda
            raise
    if safe_mode:
        return None, True
    return keras.models.load_model(path, custom_objects=custom_objects, safe_mode=False), True
