"""tf.contrib.training: HParams, and tf_slim's functions that build a train_op and evaluate checkpoints."""

from tf_slim.training.evaluation import *  # noqa: F403
from tf_slim.training.training import *  # noqa: F403

from estimator_train.compat.tf1.hparams import HParams as HParams
