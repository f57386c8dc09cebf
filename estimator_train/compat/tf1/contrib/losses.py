"""tf.contrib.losses: that of tf_slim, whose losses take predictions before labels and add themselves to a collection."""

from tf_slim.losses.loss_ops import *  # noqa: F403
