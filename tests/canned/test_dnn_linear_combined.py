"""Wide and deep models: the numbers of TensorFlow 2.15, and what they refuse."""

import pytest
import tensorflow as tf
from tf215_losses import DNN, LINEAR, expected, generations, loss

fc = tf.feature_column


@pytest.mark.slow
@generations(slow="v1")
def test_wide_and_deep_classifier(generation, columns, examples, initial_values):
    estimator = generation.DNNLinearCombinedClassifier(
        linear_feature_columns=columns.wide,
        dnn_feature_columns=columns.deep,
        dnn_hidden_units=[4, 3],
        warm_start_from=initial_values(DNN | LINEAR),
    )
    assert loss(estimator, examples()) == expected(generation, 0.6805552840232849, 6.05061674118042)


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["v2"], indirect=True)
def test_wide_and_deep_with_one_of_them(generation, columns, examples, initial_values):
    deep = generation.DNNLinearCombinedClassifier(
        dnn_feature_columns=columns.deep, dnn_hidden_units=[4, 3], warm_start_from=initial_values(DNN)
    )
    assert loss(deep, examples()) == pytest.approx(0.6741194725036621, rel=1e-5)
    wide = generation.DNNLinearCombinedRegressor(linear_feature_columns=columns.wide)
    assert loss(wide, examples()) == pytest.approx(0.5129895806312561, rel=1e-5)


def test_combined_refuses(generation):
    with pytest.raises(ValueError, match="Either linear_feature_columns or dnn_feature_columns must be defined"):
        generation.DNNLinearCombinedClassifier()
    with pytest.raises(ValueError, match="dnn_hidden_units must be defined"):
        generation.DNNLinearCombinedRegressor(dnn_feature_columns=[fc.numeric_column("a")])
