"""tf.contrib.eager: what TensorFlow 2 has under other names; Estimator code used it in programs of both kinds."""

import tensorflow as tf
from tf_keras import metrics  # noqa: F401

_v1 = tf.compat.v1


def Iterator(dataset):
    return iter(dataset)


def Variable(initial_value=None, trainable=True, name=None, dtype=None, constraint=None, **options):
    """Returns a resource variable."""
    return _v1.Variable(
        initial_value, trainable, name=name, dtype=dtype, constraint=constraint, use_resource=True, **options
    )


def in_graph_mode():
    return not tf.executing_eagerly()


def list_devices():
    return [device.name for device in tf.config.list_logical_devices()]


def num_gpus():
    return len(tf.config.list_logical_devices("GPU"))
