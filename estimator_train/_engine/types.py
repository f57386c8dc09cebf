"""Names for the types that hints of several modules use.

mypy follows `tf.compat.v1.Session` and these names, but not the `v1` of modules that say `v1 = tf.compat.v1`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

Session: TypeAlias = tf.compat.v1.Session
SessionRunHook: TypeAlias = tf.compat.v1.train.SessionRunHook
SessionRunArgs: TypeAlias = tf.compat.v1.train.SessionRunArgs
SessionRunContext: TypeAlias = tf.compat.v1.train.SessionRunContext
SessionRunValues: TypeAlias = tf.compat.v1.train.SessionRunValues
Scaffold: TypeAlias = tf.compat.v1.train.Scaffold
CheckpointSaverHook: TypeAlias = tf.compat.v1.train.CheckpointSaverHook
CheckpointSaverListener: TypeAlias = tf.compat.v1.train.CheckpointSaverListener
Strategy: TypeAlias = tf.distribute.Strategy
Hooks: TypeAlias = Sequence[tf.compat.v1.train.SessionRunHook]

# An input_fn gets whichever of mode, params, config and input_context it accepts. It returns arrays or tensors, too.
InputFn: TypeAlias = Callable[..., tf.data.Dataset]
# A function given to add_metrics gets whichever of features, labels, predictions and config it accepts.
MetricFn: TypeAlias = Callable[..., Mapping[str, Any]]

FeatureColumn: TypeAlias = Any  # TensorFlow has no public base class of feature columns
Nest: TypeAlias = Any  # a tensor or array, or dicts, lists and tuples of them: a structure of tf.nest
Metric: TypeAlias = Any  # a (value, update op) pair, or a Keras metric
MetricPair: TypeAlias = tuple[Nest, tf.Operation | tf.Tensor]  # (value, update op)
Predictor: TypeAlias = tuple[Callable[[Nest], Nest], Callable[[], None]]  # predicts batches of features, and frees it
PredictFunctions: TypeAlias = Callable[[Nest], Predictor]  # returns one for the tf.TypeSpecs of a batch
Params: TypeAlias = dict[str, Any] | None  # those given to an Estimator
