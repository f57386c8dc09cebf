"""Combines the EstimatorSpecs that a model_fn returns on each replica."""

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimator_train._engine.autograph import unconverted
from estimator_train._engine.distribution.strategies import nccl_sums_over_gpus
from estimator_train._engine.graph import private_tensorflow
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys
from estimator_train._engine.types import Scaffold

v1 = tf.compat.v1


def in_graphs(strategy: tf.distribute.Strategy | None) -> tf.distribute.Strategy:
    """Returns `strategy` in a form that works in v1 graphs; for None, the current strategy."""
    if strategy is None:
        return tf.distribute.get_strategy()
    is_mirrored = isinstance(strategy, (tf.distribute.MirroredStrategy, tf.compat.v1.distribute.MirroredStrategy))
    # MirroredStrategy's default reduction, by collective ops, hangs in v1 graphs. NCCL sums on GPUs instead, and one
    # device elsewhere.
    if is_mirrored and private_tensorflow.reduces_by_collectives(strategy):
        devices = strategy.extended.worker_devices
        are_gpus = all(tf.DeviceSpec.from_string(device).device_type == "GPU" for device in devices)
        reduction: tf.distribute.CrossDeviceOps = tf.distribute.ReductionToOneDevice()
        if are_gpus and nccl_sums_over_gpus():
            reduction = tf.distribute.NcclAllReduce()
        return tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)
    return strategy


def keep_whole_variables() -> None:
    """Removes the parts of mirrored variables from the global ones, or they would be saved and initialized again."""
    variables = v1.get_collection_ref(v1.GraphKeys.GLOBAL_VARIABLES)
    wholes = [variable for variable in variables if isinstance(variable, tf.distribute.DistributedValues)]
    parts = {id(part) for whole in wholes for part in whole.values}
    variables[:] = [variable for variable in variables if id(variable) not in parts]


def combine_specs(specs: list[EstimatorSpec]) -> EstimatorSpec:
    """Combines the replicas' specs into one; the hooks are taken from the first."""
    first = specs[0]
    if len(specs) == 1:
        return first
    if first.mode == ModeKeys.TRAIN:
        return first._replace(
            loss=_reported_loss([spec.loss for spec in specs]),
            train_op=tf.group(*(spec.train_op for spec in specs)),
            scaffold=combine_scaffolds([spec.scaffold for spec in specs]),
        )
    # Values already aggregate all replicas; updates are per replica.
    updates = tf.group(*(update for spec in specs for _, update in spec.eval_metric_ops.values()))
    metrics = {name: (value, updates) for name, (value, _) in first.eval_metric_ops.items()}
    return first._replace(eval_metric_ops=metrics, scaffold=combine_scaffolds([spec.scaffold for spec in specs]))


def _reported_loss(losses: list[tf.Tensor]) -> tf.Tensor:
    """Combines the replicas' losses: the mean if the optimizer averages them, the sum if model_fn has divided them."""
    total = tf.add_n(losses)
    if private_tensorflow.is_loss_averaged() and v1.distribute.get_loss_reduction() == tf.distribute.ReduceOp.MEAN:
        return total / len(losses)
    return total


@unconverted
def combine_scaffolds(scaffolds: list[Scaffold], local_init_ops: Iterable[tf.Operation] = ()) -> Scaffold:
    """Combines the replicas' scaffolds into one, adding `local_init_ops` to their own."""

    def combined(name: str, combine: Callable[[list[Any]], Any]) -> Any:
        parts = [part for scaffold in scaffolds if (part := getattr(scaffold, name)) is not None]
        if not parts:
            return None
        return combine(parts)

    # The copy passes itself, which will be finalized, to the init_fn of the first.
    return v1.train.Scaffold(
        init_op=combined("init_op", tf.group),
        init_feed_dict=combined("init_feed_dict", _merged),
        ready_op=combined("ready_op", _concatenated),
        ready_for_local_init_op=combined("ready_for_local_init_op", _concatenated),
        local_init_op=combined("local_init_op", lambda ops: tf.group(ops, *local_init_ops)),
        local_init_feed_dict=combined("local_init_feed_dict", _merged),
        copy_from_scaffold=scaffolds[0],
    )


def _concatenated(tensors: list[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def _merged(feeds: list[dict[tf.Tensor, Any]]) -> dict[tf.Tensor, Any]:
    return {tensor: value for feed in feeds for tensor, value in feed.items()}
