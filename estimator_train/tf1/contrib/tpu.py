"""tf.contrib.tpu where there is no TPU: TPUEstimator with use_tpu=False, and the ops that do nothing outside of one."""

from __future__ import annotations

import tensorflow as tf

_estimators = tf.compat.v1.estimator.tpu
_tpu = tf.compat.v1.tpu

InputPipelineConfig = _estimators.InputPipelineConfig
RunConfig = _estimators.RunConfig
TPUConfig = _estimators.TPUConfig
TPUEstimator = _estimators.TPUEstimator
TPUEstimatorSpec = _estimators.TPUEstimatorSpec
bfloat16_scope = _tpu.bfloat16_scope
cross_replica_sum = _tpu.cross_replica_sum
initialize_system = _tpu.initialize_system
outside_compilation = _tpu.outside_compilation
shutdown_system = _tpu.shutdown_system


def CrossShardOptimizer(opt, reduction=None, name="CrossShardOptimizer", group_assignment=None):
    """The optimizer itself: without a TPU there are no shards, and tf.tpu.CrossShardOptimizer has no kernel."""
    return opt
