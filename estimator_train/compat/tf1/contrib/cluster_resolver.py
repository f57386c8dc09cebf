"""tf.contrib.cluster_resolver, which has become tf.distribute.cluster_resolver."""

import tensorflow as tf

_resolvers = tf.compat.v1.distribute.cluster_resolver

ClusterResolver = _resolvers.ClusterResolver
GceClusterResolver = _resolvers.GCEClusterResolver
KubernetesClusterResolver = _resolvers.KubernetesClusterResolver
SimpleClusterResolver = _resolvers.SimpleClusterResolver
SlurmClusterResolver = _resolvers.SlurmClusterResolver
TFConfigClusterResolver = _resolvers.TFConfigClusterResolver
UnionClusterResolver = _resolvers.UnionResolver
