"""Training ops in v1 graphs, with TensorFlow 1's optimizers, legacy Keras ones, and Keras's new ones by their twins."""

from __future__ import annotations

import inspect
from typing import TypeAlias

import tensorflow as tf
import tf_keras as keras

from estimator_train.session import private_names

v1 = tf.compat.v1

Optimizer: TypeAlias = keras.optimizers.Optimizer | keras.optimizers.legacy.Optimizer | tf.compat.v1.train.Optimizer


def train_op(optimizer, loss, trainable_variables=None, update_ops=None, *, counts_steps=True):
    """The op that makes a training step, on every replica of a strategy that calls this.

    The gradients of the replicas are averaged, or added up where the loss is a sum over the batch.

    Args:
      optimizer: a `tf.compat.v1.train.Optimizer`; a legacy Keras optimizer, which can be used in one graph; or a
        `tf_keras.optimizers.Optimizer`. In a v1 graph the latter would change nothing, and its legacy twin trains.
      loss: scalar tensor.
      trainable_variables: list or tuple of the variables to train. None, for v1 optimizers only: those of the graph.
      update_ops: list or tuple of ops to run besides.
      counts_steps: whether the step adds one to the global step; of the optimizers of one model, one does.

    Raises:
      ValueError: something else is given, or a Keras optimizer with settings that its legacy twin lacks.
    """
    if isinstance(optimizer, v1.train.Optimizer):
        step = v1.train.get_or_create_global_step() if counts_steps else None
        op = optimizer.minimize(loss, step, trainable_variables)
    else:
        _check_is_sequence(trainable_variables, "trainable_variables")
        optimizer = _as_legacy(optimizer)
        if counts_steps:
            _count_in(v1.train.get_or_create_global_step(), optimizer)
        (op,) = optimizer.get_updates(_per_replica(loss), trainable_variables)
    return with_update_ops(op, update_ops)


def with_update_ops(op, update_ops):
    """`op` grouped with `update_ops`, a list or tuple of ops or None. Raises ValueError for something else."""
    if update_ops is None:
        return op
    _check_is_sequence(update_ops, "update_ops")
    return tf.group(op, *update_ops)


def _as_legacy(optimizer):
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        return optimizer
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return _legacy_twin(optimizer)
    raise ValueError(
        f"optimizer must be a tf_keras or tf.compat.v1.train optimizer, given: {optimizer!r} of {type(optimizer)}"
    )


def _legacy_twin(optimizer):
    """A legacy optimizer with the settings of `optimizer`."""
    kind = type(optimizer)
    twin = getattr(keras.optimizers.legacy, kind.__name__, None)
    if twin is None or kind is not getattr(keras.optimizers, kind.__name__, None):
        raise ValueError(
            f"{kind.__name__} cannot train in a v1 graph and has no twin in tf_keras.optimizers.legacy; "
            "use one of those or a tf.compat.v1.train optimizer"
        )
    lost = [name for name in ("weight_decay", "use_ema", "adaptive_epsilon") if getattr(optimizer, name, None)]
    if lost:
        raise ValueError(
            f"tf_keras.optimizers.legacy.{kind.__name__}, which takes the place of {kind.__name__} in a v1 graph, "
            f"has no {', '.join(lost)}; leave it out"
        )
    own = [
        name
        for name, parameter in inspect.signature(twin).parameters.items()
        if parameter.kind == parameter.POSITIONAL_OR_KEYWORD and name != "learning_rate"
    ]
    settings = {name: getattr(optimizer, name) for name in [*own, "clipnorm", "clipvalue", "global_clipnorm"]}
    if kind is keras.optimizers.Nadam:
        settings["schedule_decay"] = 1.0  # the new Nadam's momentum schedule; the legacy one's default is slower
    rate = _learning_rate(optimizer)
    _forget_variables(optimizer, but=rate)
    return twin(rate, **settings)


def _learning_rate(optimizer):
    """The learning rate of a new Keras optimizer: a schedule, a variable of the default graph, or a float."""
    rate = private_names.learning_rate_or_schedule(optimizer)
    if not isinstance(rate, tf.Variable):
        return rate
    graph = getattr(rate, "graph", None)  # an eager variable has none
    if graph is None:
        with private_names.eager_mode():
            return float(rate.numpy())
    first = tf.get_static_value(rate.initial_value)
    if first is None:
        kind = type(optimizer).__name__
        raise ValueError(
            f"{kind} would keep the first value of its learning rate, which is a tensor, for good; "
            f"use tf_keras.optimizers.legacy.{kind} or a tf_keras.optimizers.schedules.LearningRateSchedule"
        )
    return rate if graph is v1.get_default_graph() else float(first)


def _forget_variables(optimizer, but):
    """Leaves the variables of `optimizer`, whose twin works for it, out of what its graph initialises and saves.

    The rate of a schedule could not even be initialised: it reads the count of steps in whatever order.
    """
    strategy = tf.distribute.get_strategy()
    idle = [value for value in vars(optimizer).values() if isinstance(value, tf.Variable) and value is not but]
    idle += [copy for value in idle for copy in strategy.experimental_local_results(value)]
    variables = v1.get_collection_ref(v1.GraphKeys.GLOBAL_VARIABLES)
    variables[:] = [variable for variable in variables if not any(variable is other for other in idle)]


def _count_in(step, optimizer):
    try:
        optimizer.iterations = step
    except RuntimeError as error:  # it has a variable for that, which may be the one
        if optimizer.iterations is not step:
            raise ValueError(
                f"The {type(optimizer).__name__} optimizer has been used in another graph or counts its steps in "
                "another variable than the global step; make a new one in every call of model_fn"
            ) from error


def _per_replica(loss):
    """`loss` divided by the replicas, for gradients that Keras adds up over them, where they are to be averaged."""
    if v1.distribute.get_loss_reduction() != tf.distribute.ReduceOp.MEAN:
        return loss
    private_names.set_loss_averaged()  # so that the mean of the replicas' losses is reported
    return loss / tf.distribute.get_strategy().num_replicas_in_sync


def _check_is_sequence(value, name):
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} should be a list or a tuple. Given: {value!r}")
