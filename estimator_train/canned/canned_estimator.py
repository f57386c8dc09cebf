"""The base of all canned estimators: a model_fn of towers, whose logits add up, under a head."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras

from estimator_train.canned.generations import TF2
from estimator_train.estimator import Estimator
from estimator_train.graph_optimizers import train_op
from estimator_train.heads import Head

v1 = tf.compat.v1


class Tower(NamedTuple):
    """A part of a canned model: what makes its logits, and what trains its variables.

    Attributes:
      scope: of its variables, a str.
      logit_fn: as for `call_logit_fn`.
      make_optimizer: gives the optimizer for a new graph.
      partitioner: of its variables, where they are partitioned.
    """

    scope: str
    logit_fn: Callable
    make_optimizer: Callable
    partitioner: Callable | None = None


class CannedEstimator(Estimator):
    """The Estimator of a list of towers and a head."""

    _generation = TF2()

    def __init__(self, head, towers, model_dir, config, warm_start_from=None):
        model_fn = functools.partial(_model_fn, head=head, towers=towers, generation=self._generation)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


def logits_dimension(head):
    """The units that `head` needs, an int. Raises ValueError where it is no Head."""
    if not isinstance(head, Head):
        raise ValueError(f"head must be a Head such as RegressionHead(), given: {head!r}")
    return head.logits_dimension


def optimizer_factory(optimizer, learning_rate, generation):
    """A function without arguments that gives the optimizer for a new graph.

    Args:
      optimizer: a name, an optimizer, or a function that returns one.
      learning_rate: of an optimizer given by name; None: its own default.
      generation: whose optimizers the names stand for.

    Raises:
      ValueError: another name.
    """
    if isinstance(optimizer, str):
        if optimizer not in generation.optimizers:
            raise ValueError(f"Unsupported optimizer name: {optimizer!r}; use one of {sorted(generation.optimizers)}.")
        make = generation.optimizers[optimizer]
        return make if learning_rate is None else functools.partial(make, learning_rate)
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        return functools.partial(copy.deepcopy, optimizer)  # it can be used in one graph only
    return optimizer if callable(optimizer) else lambda: optimizer


def call_logit_fn(logit_fn, features, mode, params, config):
    """Calls `logit_fn` with `features`, and with those of mode, params and config that it names.

    Returns:
      Its logits, a tensor or a dict of tensors.

    Raises:
      ValueError: it returns something else.
    """
    names = inspect.signature(logit_fn).parameters
    offered = {"mode": mode, "params": params, "config": config}
    logits = logit_fn(features=features, **{name: value for name, value in offered.items() if name in names})
    if not tf.is_tensor(logits) and not (isinstance(logits, dict) and all(map(tf.is_tensor, logits.values()))):
        raise ValueError(f"logit_fn should return a Tensor or a dictionary mapping strings to Tensors, got: {logits!r}")
    return logits


def summarize(layer, tag):
    """Adds summaries of a layer's outputs."""
    v1.summary.scalar(f"{tag}/fraction_of_zero_values", tf.math.zero_fraction(layer))
    v1.summary.histogram(f"{tag}/activation", layer)


def _model_fn(features, labels, mode, config, *, head, towers, generation):
    if not isinstance(features, dict) or not features:
        raise ValueError(f"features must be a dict of tensors by feature name, given: {features!r}")
    logits = []
    for tower in towers:
        with generation.variable_scope(tower.scope, tower.partitioner):
            logits.append(call_logit_fn(tower.logit_fn, features, mode, None, config))

    def train_op_fn(loss):
        with generation.train_scope([tower.scope for tower in towers]):
            ops = [
                train_op(tower.make_optimizer(), loss, _variables(tower), counts_steps=tower is towers[0])
                for tower in towers
            ]
        return tf.group(*ops)

    return head.create_estimator_spec(
        features,
        mode,
        tf.math.add_n(logits),
        labels=labels,
        train_op_fn=train_op_fn,
        update_ops=v1.get_collection(v1.GraphKeys.UPDATE_OPS),
    )


def _variables(tower):
    return v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, scope=f"{tower.scope}/")
