"""Builds training ops in v1 graphs, for v1 optimizers, legacy Keras ones, and new Keras ones via their legacy twins."""

import copy
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.argument_names import argument_names
from estimator_train._engine.graph import private_tensorflow, private_tf_keras
from estimator_train._engine.session.private_tensorflow import eager_mode

v1 = tf.compat.v1

Optimizer: TypeAlias = keras.optimizers.Optimizer | keras.optimizers.legacy.Optimizer | tf.compat.v1.train.Optimizer
Rate: TypeAlias = keras.optimizers.schedules.LearningRateSchedule | tf.Variable | float


def train_op(
    optimizer: Optimizer,
    loss: tf.Tensor,
    trainable_variables: Sequence[tf.Variable] | None = None,
    update_ops: Sequence[tf.Operation] | None = None,
    *,
    counts_steps: bool = True,
) -> tf.Operation:
    """Returns the op of a training step; with a strategy, each replica calls this function.

    The replicas' gradients are averaged, or added up if the loss is a sum over the batch. For a new Keras optimizer,
    which has no effect in a v1 graph, its legacy twin trains; a legacy one works in one graph only. Without
    `trainable_variables`, a v1 optimizer trains all of the graph's. If a model has several optimizers, only one may
    count steps. Raises ValueError if an argument has the wrong type, or the twin lacks a setting.
    """
    if isinstance(optimizer, v1.train.Optimizer):
        step = v1.train.get_or_create_global_step() if counts_steps else None
        op = optimizer.minimize(loss, step, trainable_variables)
    else:
        if trainable_variables is None:
            raise ValueError(
                "trainable_variables cannot be None with a Keras optimizer; pass the model's, or "
                "tf.compat.v1.trainable_variables()."
            )
        _check_is_sequence(trainable_variables, "trainable_variables")
        optimizer = _as_legacy(optimizer)
        if counts_steps:
            _count_in(v1.train.get_or_create_global_step(), optimizer)
        (op,) = optimizer.get_updates(_per_replica(loss), trainable_variables)
    return with_update_ops(op, update_ops)


def forget(optimizer: Optimizer | None) -> None:
    """Removes the variables of an optimizer that does not train from the graph's, because no checkpoint has them."""
    if isinstance(optimizer, keras.optimizers.Optimizer):  # the others have none before they train
        _forget_variables(optimizer, but=None)


def copied(optimizer: keras.optimizers.legacy.Optimizer) -> keras.optimizers.legacy.Optimizer:
    """Returns a copy of a legacy Keras optimizer for the default graph, because an instance works in one graph only."""
    step = private_tf_keras.legacy_step_variable(optimizer)
    replaced = {}
    if getattr(step, "graph", None) is not None:  # an earlier call's; an eager variable has none
        replaced = {id(step): None}
    made = copy.deepcopy(optimizer, replaced)
    # As in tf.estimator, the given optimizer counts the graph's steps, too.
    private_tf_keras.set_legacy_step_variable(optimizer, v1.train.get_or_create_global_step())
    return made


def with_update_ops(op: tf.Operation, update_ops: Sequence[tf.Operation] | None) -> tf.Operation:
    """Returns `op` grouped with `update_ops`, a list or tuple of ops, or None. Raises ValueError for other types."""
    if update_ops is None:
        return op
    _check_is_sequence(update_ops, "update_ops")
    return tf.group(op, *update_ops)


def _as_legacy(optimizer: Optimizer) -> keras.optimizers.legacy.Optimizer:
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        return optimizer
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return _legacy_twin(optimizer)
    raise ValueError(
        "The given optimizer is not a tf.keras.optimizers.Optimizer instance, nor a tf.compat.v1.train.Optimizer. "
        f"Given: {optimizer!r} of {type(optimizer)}"
    )


def _legacy_twin(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.legacy.Optimizer:
    kind = type(optimizer)
    twin = getattr(keras.optimizers.legacy, kind.__name__, None)
    if twin is None or kind is not getattr(keras.optimizers, kind.__name__, None):
        raise ValueError(
            f"{kind.__name__} cannot train in a v1 graph and has no equivalent in tf_keras.optimizers.legacy; "
            "use a legacy or a tf.compat.v1.train optimizer"
        )
    lost = [name for name in ("weight_decay", "use_ema", "adaptive_epsilon") if getattr(optimizer, name, None)]
    if lost:
        raise ValueError(
            f"tf_keras.optimizers.legacy.{kind.__name__}, which replaces {kind.__name__} in a v1 graph, "
            f"has no {', '.join(lost)}; remove it"
        )
    own = [name for name in argument_names(twin) if name != "learning_rate"]
    settings = {name: getattr(optimizer, name) for name in [*own, "clipnorm", "clipvalue", "global_clipnorm"]}
    if kind is keras.optimizers.Nadam:
        settings["schedule_decay"] = 1.0  # the new Nadam's momentum schedule; the legacy one's default is slower
    rate = _learning_rate(optimizer)
    _forget_variables(optimizer, but=rate)
    return twin(rate, **settings)


def _learning_rate(optimizer: keras.optimizers.Optimizer) -> Rate:
    rate = private_tf_keras.learning_rate_or_schedule(optimizer)
    if not isinstance(rate, tf.Variable):
        return rate
    graph = getattr(rate, "graph", None)  # an eager variable has none
    if graph is None:
        with eager_mode():
            return float(rate.numpy())
    first = tf.get_static_value(rate.initial_value)
    if first is None:
        kind = type(optimizer).__name__
        raise ValueError(
            f"{kind} would never update its learning rate, which is a tensor; "
            f"use tf_keras.optimizers.legacy.{kind} or a tf_keras.optimizers.schedules.LearningRateSchedule"
        )
    return rate if graph is v1.get_default_graph() else float(first)


def _forget_variables(optimizer: keras.optimizers.Optimizer, but: Rate | None) -> None:
    # A schedule's learning-rate variable could not be initialized anyway: it depends on the step variable.
    strategy = tf.distribute.get_strategy()
    idle = [value for value in vars(optimizer).values() if isinstance(value, tf.Variable) and value is not but]
    idle += [copy for value in idle for copy in strategy.experimental_local_results(value)]
    variables = v1.get_collection_ref(v1.GraphKeys.GLOBAL_VARIABLES)
    variables[:] = [variable for variable in variables if not any(variable is other for other in idle)]


def _count_in(step: tf.Variable, optimizer: keras.optimizers.legacy.Optimizer) -> None:
    try:
        optimizer.iterations = step
    except RuntimeError as error:  # the optimizer already has a step variable, which may be the same
        if optimizer.iterations is not step:
            raise ValueError(
                f"The {type(optimizer).__name__} optimizer has been used in another graph or counts its steps in "
                "a variable other than the global step; create a new one in every call of model_fn"
            ) from error


def _per_replica(loss: tf.Tensor) -> tf.Tensor:
    """Divides `loss` by the number of replicas if gradients should be averaged, because Keras adds them up."""
    if v1.distribute.get_loss_reduction() != tf.distribute.ReduceOp.MEAN:
        return loss
    private_tensorflow.set_loss_averaged()  # so the mean of the replicas' losses is reported
    return loss / tf.distribute.get_strategy().num_replicas_in_sync


def _check_is_sequence(value: Any, name: str) -> None:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} should be a list or a tuple. Given: {value!r}")
