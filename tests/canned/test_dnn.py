"""Deep networks: the numbers of TensorFlow 2.15, and what they refuse."""

import numpy as np
import pytest
import tensorflow as tf
from tf215_losses import BATCH_NORM, DNN, expected, generations, loss

fc = tf.feature_column
v1 = tf.compat.v1


@pytest.mark.slow
@generations(slow="v2")
def test_dnn_classifier_with_adam(generation, columns, examples, initial_values):
    estimator = generation.DNNClassifier([4, 3], columns.deep, warm_start_from=initial_values(DNN), optimizer="Adam")
    assert loss(estimator, examples()) == expected(generation, 0.6664894819259644, 3.827146053314209)


@pytest.mark.slow
@generations(slow="v1")
def test_dnn_regressor_with_rmsprop_and_tanh(generation, columns, examples, initial_values):
    estimator = generation.DNNRegressor(
        [4, 3], columns.deep, warm_start_from=initial_values(DNN), optimizer="RMSProp", activation_fn=tf.nn.tanh
    )
    assert loss(estimator, examples()) == expected(generation, 0.23228424787521362, 1.208150863647461)


@pytest.mark.slow
@generations(slow="v2")
def test_dnn_classifier_with_batch_norm(generation, columns, examples, initial_values):
    start = initial_values(DNN | BATCH_NORM)
    estimator = generation.DNNClassifier([4, 3], columns.deep, warm_start_from=start, batch_norm=True)
    assert loss(estimator, examples()) == expected(generation, 0.6959787011146545, 5.2908172607421875)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden_units": [0]}, "positive"),
        ({"hidden_units": [4, -1]}, "positive"),
        ({"hidden_units": ["4", "2.5"]}, r"must be positive numbers, given: 1, \['4', '2.5'\]"),
        ({"hidden_units": [None]}, "positive"),
        ({"feature_columns": []}, "must not be empty"),
        ({"feature_columns": ["a"]}, "'a'"),
        ({"feature_columns": [fc.numeric_column("a"), fc.numeric_column("a")]}, "two columns named 'a'"),
        ({"feature_columns": [fc.categorical_column_with_identity("c", 3)]}, "embedding_column or indicator_column"),
        ({"optimizer": "Adamm"}, "Unsupported optimizer name: Adamm.*Adagrad"),
        ({"n_classes": 1}, "1"),
    ],
)
def test_dnn_refuses(generation, arguments, message):
    with pytest.raises(ValueError, match=message):
        generation.DNNClassifier(**({"hidden_units": [2], "feature_columns": [fc.numeric_column("a")]} | arguments))


def test_a_sequence_in_an_embedding_is_refused(generation):
    sequence = fc.sequence_categorical_column_with_identity("s", 3)
    estimator = generation.DNNClassifier([2], [fc.embedding_column(sequence, 2)])
    with pytest.raises(ValueError, match="SequenceCategoricalColumn"):
        estimator.train(lambda: tf.data.Dataset.from_tensors(({"s": [[1]]}, [[1]])), steps=1)


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["v2"], indirect=True)
def test_units_may_be_an_array_and_a_dropout_of_0_changes_no_initial_value(generation, examples):
    def weights(dropout):
        units = np.array([4, 5 / 2])  # 2.15 takes such numbers, and rounds them down
        estimator = generation.DNNClassifier(units, [fc.numeric_column("b")], dropout=dropout)
        return estimator.train(examples(), steps=1).get_variable_value("dnn/hiddenlayer_1/kernel")

    undropped = weights(None)
    assert undropped.shape == (4, 2)
    np.testing.assert_array_equal(weights(0), undropped)


@pytest.mark.parametrize("kind", ["DNNClassifier", "DNNLinearCombinedClassifier"])
def test_units_may_be_the_texts_of_a_flag(generation, kind):
    """As in 1.15.5 and 2.15.1, because Dense calls int."""
    prefix = "dnn_" * (kind != "DNNClassifier")
    units = {f"{prefix}hidden_units": ["4", " 2"], f"{prefix}feature_columns": [fc.numeric_column("b")]}
    with tf.Graph().as_default():
        getattr(generation, kind)(**units).model_fn({"b": tf.constant([[1.0]])}, None, "infer", None)
        shapes = [variable.shape.as_list() for variable in v1.trainable_variables()]
    assert shapes == [[1, 4], [4], [4, 2], [2], [2, 1], [1]]
