"""tf.contrib.cluster_resolver, which has become tf.distribute.cluster_resolver."""

import tensorflow as tf


class TPUClusterResolver(tf.compat.v1.distribute.cluster_resolver.SimpleClusterResolver):
    """Connects to no TPU: its cluster is empty, and its master is this process, as TPUEstimator(use_tpu=False) needs.

    Scripts make one whether or not they use a TPU. All arguments, such as the TPU's name and zone, are ignored.
    """

    def __init__(self, *arguments, **options):
        super().__init__(tf.train.ClusterSpec({}))

    def get_master(self):
        return self.master()
