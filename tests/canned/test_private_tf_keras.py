"""Each private name of tf_keras, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import pytest
import tensorflow as tf

from estimator_train.canned import private_tf_keras

v1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_v1_layers_make_their_variables_in_the_variable_scope(graph):
    """Canned DNNs could not be built, or their checkpoints would have other names than tf.estimator's."""
    with v1.variable_scope("scope"):
        net = private_tf_keras.v1_dense_class()(2, name="dense")(tf.ones([1, 3]))
        private_tf_keras.v1_batch_normalization_class()(name="batchnorm")(net, training=True)
    names = ["dense/kernel", "dense/bias", "batchnorm/gamma", "batchnorm/beta"]
    assert [variable.name for variable in v1.trainable_variables()] == [f"scope/{name}:0" for name in names]
