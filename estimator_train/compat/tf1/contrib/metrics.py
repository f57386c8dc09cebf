"""tf.contrib.metrics: that of tf_slim, whose streaming metrics take predictions before labels."""

import tensorflow as tf
from tf_slim.metrics import accuracy, auc_using_histogram, f1_score  # noqa: F401
from tf_slim.metrics.metric_ops import *  # noqa: F403

confusion_matrix = tf.compat.v1.confusion_matrix
