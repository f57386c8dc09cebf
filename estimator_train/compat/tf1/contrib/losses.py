"""tf.contrib.losses: that of tf_slim, whose losses take predictions before labels."""

from tf_slim.losses.loss_ops import *  # noqa: F403
