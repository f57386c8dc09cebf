"""tf.contrib.tpu without TPUs: TPUEstimator with use_tpu=False, and ops that do nothing on CPUs and GPUs."""

import tensorflow as tf

from estimator_train.compat.drop_in.tpu import *  # noqa: F403

_tpu = tf.compat.v1.tpu

bfloat16_scope = _tpu.bfloat16_scope
cross_replica_sum = _tpu.cross_replica_sum
initialize_system = _tpu.initialize_system
outside_compilation = _tpu.outside_compilation
shutdown_system = _tpu.shutdown_system


def CrossShardOptimizer(opt, reduction=None, name="CrossShardOptimizer", group_assignment=None):
    """Returns the optimizer itself: without a TPU there are no shards, and tf.tpu.CrossShardOptimizer has no kernel."""
    return opt
