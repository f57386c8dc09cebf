"""The base of all canned estimators: a model_fn that adds up the logits of its branches and passes them to a head."""

import functools
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.argument_names import taken_by
from estimator_train._engine.graph import optimizers
from estimator_train._engine.graph.optimizers import train_op
from estimator_train._engine.graph.warm_start import WarmStartSettings
from estimator_train._engine.model_fn import EstimatorSpec
from estimator_train.canned.api_versions import ApiV2, Partitioner
from estimator_train.estimator import Estimator
from estimator_train.heads import Head, binary_or_multi_class_head
from estimator_train.run_config import RunConfig

v1 = tf.compat.v1

# An optimizer, its name, or a function that creates one.
Optimizer: TypeAlias = str | optimizers.Optimizer | Callable[[], optimizers.Optimizer]


class Branch(NamedTuple):
    """A part of a canned model, which computes logits and has its own optimizer."""

    scope: str  # of the variables
    logit_fn: Callable[..., tf.Tensor | dict[str, tf.Tensor]]  # as for `call_logit_fn`
    make_optimizer: Callable[[], optimizers.Optimizer]  # for a new graph
    partitioner: Partitioner | None = None


class CannedEstimator(Estimator):
    """An Estimator whose model is a list of branches and a head."""

    _api_version = ApiV2()

    def __init__(
        self,
        head: Head,
        branches: list[Branch],
        model_dir: str | os.PathLike[str] | None,
        config: RunConfig | None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        model_fn = functools.partial(_model_fn, head=head, branches=branches, api_version=self._api_version)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)

    def _classifier_head(self, *how: Any) -> Head:
        return binary_or_multi_class_head(*how, binary_head=self._api_version.binary_head)

    def _branch(
        self,
        scope: str,
        logit_fn: Callable[..., tf.Tensor],
        optimizer: Optimizer,
        learning_rate: float | None,
        partitioner: Partitioner | None = None,
    ) -> Branch:
        return Branch(scope, logit_fn, optimizer_factory(optimizer, learning_rate, self._api_version), partitioner)


def logits_dimension(head: Head) -> int:
    """Returns the number of logits that `head` needs. Raises ValueError if it is not a Head."""
    if not isinstance(head, Head):
        raise ValueError(f"head must be a Head such as RegressionHead(), given: {head!r}")
    return head.logits_dimension


def optimizer_factory(
    optimizer: Optimizer, learning_rate: float | None, api_version: ApiV2
) -> Callable[[], optimizers.Optimizer]:
    """Returns a function that creates the optimizer for a new graph.

    One given by name gets `learning_rate`, or its own default if that is None.
    """
    if isinstance(optimizer, str):
        make = api_version.optimizer_class(optimizer)
        return make if learning_rate is None else functools.partial(make, learning_rate)
    if isinstance(optimizer, keras.optimizers.legacy.Optimizer):
        return functools.partial(optimizers.copied, optimizer)  # an instance works in one graph only
    if callable(optimizer):
        return optimizer
    return lambda: optimizer


def call_logit_fn(
    logit_fn: Callable[..., tf.Tensor | dict[str, tf.Tensor]],
    features: Any,
    mode: str,
    params: dict[str, Any] | None,
    config: RunConfig | None,
) -> tf.Tensor | dict[str, tf.Tensor]:
    """Calls `logit_fn` with `features`, and with whichever of mode, params and config it accepts.

        >>> logit_fn = lambda features, params: params["scale"] * features["x"]
        >>> call_logit_fn(logit_fn, {"x": tf.constant([1.0])}, et.ModeKeys.EVAL, {"scale": 2.0}, None).numpy()
        array([2.], dtype=float32)

    Returns:
      Its logits, a tensor or a dict of tensors.

    Raises ValueError if it returns anything else.
    """
    offered = {"mode": mode, "params": params, "config": config}
    logits = logit_fn(features=features, **taken_by(logit_fn, offered))
    if not tf.is_tensor(logits) and not (isinstance(logits, dict) and all(map(tf.is_tensor, logits.values()))):
        raise ValueError(f"logit_fn should return a Tensor or a dictionary mapping strings to Tensors, got: {logits!r}")
    return logits


def summarize(layer: tf.Tensor, tag: str) -> None:
    """Adds summaries of a layer's outputs."""
    v1.summary.scalar(f"{tag}/fraction_of_zero_values", tf.math.zero_fraction(layer))
    v1.summary.histogram(f"{tag}/activation", layer)


def _model_fn(
    features: dict[str, Any],
    labels: Any,
    mode: str,
    config: RunConfig,
    *,
    head: Head,
    branches: list[Branch],
    api_version: ApiV2,
) -> EstimatorSpec:
    if not isinstance(features, dict) or not features:
        raise ValueError(f"features should be a dictionary of `Tensor`s. Given type: {type(features)}, {features!r}")
    logits, trained = [], []
    for branch in branches:
        with api_version.variable_scope(branch.scope, branch.partitioner) as scope:
            logits.append(call_logit_fn(branch.logit_fn, features, mode, None, config))
        # Use the scope's full name: another model_fn may call this one inside its own scope.
        variables = v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, f"{re.escape(scope.name)}/")
        trained.append((branch, variables))
    train_op_fn = functools.partial(_train_op, trained=trained, api_version=api_version)
    update_ops = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    total = tf.math.add_n(logits)
    with api_version.head_scope([branch.scope for branch in branches]):
        return head.create_estimator_spec(
            features, mode, total, labels=labels, train_op_fn=train_op_fn, update_ops=update_ops
        )


def _train_op(loss: tf.Tensor, *, trained: list[tuple[Branch, list[tf.Variable]]], api_version: ApiV2) -> tf.Operation:
    ops = []
    with api_version.train_scope([branch.scope for branch, _ in trained]):
        for branch, variables in trained:
            ops.append(train_op(branch.make_optimizer(), loss, variables, counts_steps=not ops))
    return tf.group(*ops)
