"""tf.contrib.eager: what TensorFlow 2 has under other names; Estimator code used it in programs of both kinds."""

import tensorflow as tf
import tf_keras as keras

_v1 = tf.compat.v1

Checkpoint = tf.train.Checkpoint
GradientTape = tf.GradientTape
custom_gradient = tf.custom_gradient
defun = tf.function
enable_eager_execution = _v1.enable_eager_execution
executing_eagerly = tf.executing_eagerly
function = tf.function
in_eager_mode = tf.executing_eagerly
make_template = _v1.make_template
metrics = keras.metrics
py_func = tf.py_function
wrap_function = _v1.wrap_function


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
