import pytest
import tensorflow as tf

from estimator_train.canned.parse_example_spec import classifier_parse_example_spec, regressor_parse_example_spec

AGE = tf.feature_column.numeric_column("age")
TOWN = tf.feature_column.categorical_column_with_hash_bucket("town", 10)
FEATURES = {"age": tf.io.FixedLenFeature((1,), tf.float32), "town": tf.io.VarLenFeature(tf.string)}


def test_a_classifier_has_an_integer_label():
    spec = classifier_parse_example_spec([AGE, TOWN], "label")
    assert spec == FEATURES | {"label": tf.io.FixedLenFeature((1,), tf.int64)}


def test_a_classifier_may_have_a_string_label_with_a_default():
    spec = classifier_parse_example_spec([AGE, TOWN], "label", tf.string, "none")
    assert spec["label"] == tf.io.FixedLenFeature((1,), tf.string, "none")


def test_a_regressor_has_as_many_labels_as_dimensions():
    assert regressor_parse_example_spec([AGE], "y")["y"] == tf.io.FixedLenFeature((1,), tf.float32)
    assert regressor_parse_example_spec([AGE], "y", label_dimension=3)["y"] == tf.io.FixedLenFeature((3,), tf.float32)


@pytest.mark.parametrize("make", [classifier_parse_example_spec, regressor_parse_example_spec])
@pytest.mark.parametrize("weight_column", ["w", tf.feature_column.numeric_column("w", normalizer_fn=lambda w: w / 2)])
def test_the_weight_is_parsed_too(make, weight_column):
    assert make([AGE], "y", weight_column=weight_column)["w"] == tf.io.FixedLenFeature((1,), tf.float32)


@pytest.mark.parametrize("make", [classifier_parse_example_spec, regressor_parse_example_spec])
@pytest.mark.parametrize(
    ("label_key", "weight_column", "message"),
    [
        ("age", None, "label should not be used as feature. label_key: age"),
        ("y", "age", "weight_column should not be used as feature. weight_column: age"),
        ("y", TOWN, "weight_column should be a str or a tf.feature_column.numeric_column"),
    ],
)
def test_a_key_used_twice_and_a_wrong_weight_are_reported(make, label_key, weight_column, message):
    with pytest.raises(ValueError, match=message):
        make([AGE], label_key, weight_column=weight_column)
