"""tf.contrib.metrics: that of tf_slim, whose streaming metrics take predictions before labels."""

import tensorflow as tf
from tf_slim.metrics import *  # noqa: F403

confusion_matrix = tf.compat.v1.confusion_matrix
