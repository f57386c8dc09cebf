"""tf.contrib.framework: the argument scopes and variables of tf_slim, and names that tf has outside of contrib."""

import tensorflow as tf
from tf_slim.ops.arg_scope import *  # noqa: F403
from tf_slim.ops.framework_ops import *  # noqa: F403
from tf_slim.ops.variables import *  # noqa: F403

from estimator_train.compat.drop_in import private_tensorflow as _private_tensorflow
from estimator_train.compat.tf1 import private_tf_slim as _private_tf_slim  # noqa: F401, changes tf_slim

_v1 = tf.compat.v1
_deprecation = _private_tensorflow.deprecation()

deprecated = _deprecation.deprecated
deprecated_arg_values = _deprecation.deprecated_arg_values
deprecated_args = _deprecation.deprecated_args
nest = _private_tensorflow.nest()


def zero_initializer(ref, use_locking=True, name="zero_initializer"):
    """Returns an op that sets a variable to zeros."""
    return _v1.assign(ref, tf.zeros(ref.shape, ref.dtype.base_dtype), use_locking=use_locking, name=name)
