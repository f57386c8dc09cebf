"""tf.contrib.tpu without TPUs: TPUEstimator with use_tpu=False, and ops that do nothing on CPUs and GPUs."""

from estimator_train.compat.drop_in.tpu import *  # noqa: F403


def CrossShardOptimizer(opt, reduction=None, name="CrossShardOptimizer", group_assignment=None):
    """Returns the optimizer itself: without a TPU there are no shards, and tf.tpu.CrossShardOptimizer has no kernel."""
    return opt
