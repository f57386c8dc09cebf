"""What the canned estimators of TensorFlow 1 and 2 do differently: optimizers, scopes, partitioned variables."""

from __future__ import annotations

import contextlib

import tensorflow as tf
import tf_keras as keras

v1 = tf.compat.v1


class ApiV2:
    """tf.estimator: Keras optimizers and whole variables."""

    optimizers = {
        "Adagrad": keras.optimizers.legacy.Adagrad,
        "Adam": keras.optimizers.legacy.Adam,
        "Ftrl": keras.optimizers.legacy.Ftrl,
        "RMSProp": keras.optimizers.legacy.RMSprop,
        "SGD": keras.optimizers.legacy.SGD,
    }
    dnn_learning_rate = None  # the optimizer's own default
    partitioner = None

    def variable_scope(self, name, partitioner):
        """Returns the variable scope of a branch."""
        # Keras' optimizers need resource variables, which a program may have turned off.
        return v1.variable_scope(name, partitioner=partitioner, auxiliary_name_scope=False, use_resource=True)

    def train_scope(self, names):
        """Returns the scope in which the optimizers of the branches called `names` create their variables."""
        return contextlib.nullcontext()


class ApiV1:
    """tf.compat.v1.estimator: v1 optimizers and partitioned variables, with the names that old checkpoints have.

    Args:
      partitioned: whether variables are, and into one part unless `partitioner` says otherwise.
      partitioner: of the variables of feature columns.
    """

    optimizers = {
        "Adagrad": v1.train.AdagradOptimizer,
        "Adam": v1.train.AdamOptimizer,
        "Ftrl": v1.train.FtrlOptimizer,
        "RMSProp": v1.train.RMSPropOptimizer,
        "SGD": v1.train.GradientDescentOptimizer,
    }
    dnn_learning_rate = 0.05

    def __init__(self, *, partitioned, partitioner):
        self._default_partitioner = v1.fixed_size_partitioner(1) if partitioned else None
        self.partitioner = partitioner

    def variable_scope(self, name, partitioner):
        return v1.variable_scope(name, partitioner=partitioner or self._default_partitioner)

    @contextlib.contextmanager
    def train_scope(self, names):
        # A DNN or linear model alone made its optimizer's variables in its own scope, others made them outside.
        name = names[0] if len(names) == 1 and self._default_partitioner else ""
        with contextlib.ExitStack() as stack:
            if name:
                stack.enter_context(v1.variable_scope(name, auxiliary_name_scope=False))
            stack.enter_context(tf.name_scope(f"{name}/head/".lstrip("/")))
            yield
