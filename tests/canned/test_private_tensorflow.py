"""Each private name of TensorFlow, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import pytest
import tensorflow as tf

from estimator_train.canned import private_tensorflow

v1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_the_classes_of_feature_columns():
    """Canned estimators could not refuse what is no feature column, and what needs an embedding around it."""
    numeric = tf.feature_column.numeric_column("x")
    categorical = tf.feature_column.categorical_column_with_identity("x", 3)
    for column in [numeric, categorical]:
        assert isinstance(column, private_tensorflow.feature_column_class())
    assert isinstance(numeric, private_tensorflow.dense_column_class())
    assert not isinstance(categorical, private_tensorflow.dense_column_class())


def test_feature_columns_make_tensors_and_variables_in_the_variable_scope(graph):
    """Canned estimators would have no inputs, or their checkpoints other names than tf.estimator's."""
    column = tf.feature_column.embedding_column(tf.feature_column.categorical_column_with_identity("x", 3), 2)
    cache, state = private_tensorflow.column_cache({"x": tf.constant([[1], [2]])}), private_tensorflow.column_state()
    with v1.variable_scope("scope"):
        column.create_state(state)
    assert column.get_dense_tensor(cache, state).shape == (2, 2)
    assert [variable.name for variable in v1.trainable_variables()] == ["scope/embedding_weights:0"]
