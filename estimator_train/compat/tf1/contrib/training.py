"""tf.contrib.training: HParams, and tf_slim's functions that build a train_op and evaluate checkpoints."""

import tensorflow as tf
from tf_slim.training.evaluation import *  # noqa: F403
from tf_slim.training.training import *  # noqa: F403

from estimator_train.compat.tf1.hparams import HParams as HParams

_Optimizer = tf.compat.v1.train.Optimizer

GATE_NONE, GATE_OP, GATE_GRAPH = _Optimizer.GATE_NONE, _Optimizer.GATE_OP, _Optimizer.GATE_GRAPH
