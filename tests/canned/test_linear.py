"""Linear models: the numbers of TensorFlow 2.15, and what they refuse."""

import math

import numpy as np
import pytest
import tensorflow as tf
from tf215_losses import expected, generations, loss

from estimator_train._engine.events import read_eval_metrics
from estimator_train._engine.model_fn import ModeKeys
from estimator_train.canned.dnn import dnn_logit_fn_builder
from estimator_train.canned.linear import linear_logit_fn_builder
from estimator_train.run_config import RunConfig

fc = tf.feature_column
v1 = tf.compat.v1


@generations(slow="v1")
def test_linear_classifier(generation, columns, examples):
    estimator = generation.LinearClassifier(columns.wide)
    assert loss(estimator, examples()) == expected(generation, 0.5438205003738403, 3.930304765701294)


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["v2"], indirect=True)
def test_linear_classifier_with_weights_and_a_combiner(generation, columns, examples):
    def input_fn():
        return examples()().map(lambda features, label: ({**features, "w": tf.abs(features["b"])}, label))

    estimator = generation.LinearClassifier(columns.wide, weight_column="w", sparse_combiner="mean")
    assert loss(estimator, input_fn) == pytest.approx(0.35414040088653564, rel=1e-5)


@pytest.mark.slow
def test_area_under_the_precision_recall_curve(generation):
    """TensorFlow 1 adds up trapezoids; Keras interpolates."""
    labels = np.array([1, 0, 0] * 4 + [0, 1, 1] * 2 + [0, 1], np.int32)

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(({"x": np.linspace(-1, 1, 20, dtype="float32")}, labels)).batch(7)

    estimator = generation.LinearClassifier([tf.feature_column.numeric_column("x")])
    metrics = estimator.train(input_fn).evaluate(input_fn)
    assert metrics["auc_precision_recall"] == expected(generation, 0.5506765842437744, 0.6120603084564209)


@generations(slow="v1")
def test_scalars_in_the_events_of_a_linear_model_alone(generation, tmp_path):
    def input_fn():
        return tf.data.Dataset.from_tensors(({"x": [[1.0], [2.0]]}, [0, 1]))

    generation.LinearClassifier([fc.numeric_column("x")], str(tmp_path), config=RunConfig()).train(input_fn)
    scalars = {"bias": 0, "fraction_of_zero_weights": 1, "loss": math.log(2)}
    if generation.is_v1:
        scalars = {"linear/bias": 0, "linear/fraction_of_zero_weights": 1}
        scalars |= {"loss": 2 * math.log(2), "average_loss": math.log(2)}
    assert read_eval_metrics(f"{tmp_path}/*.tfevents.*")[1] == pytest.approx(scalars)


def test_linear_refuses(generation):
    column = fc.numeric_column("a")
    with pytest.raises(ValueError, match="must not be empty"):
        generation.LinearClassifier([])
    with pytest.raises(ValueError, match="SequenceNumericColumn"):
        generation.LinearClassifier([fc.sequence_numeric_column("a")])
    with pytest.raises(ValueError, match="sparse_combiner.*'max'"):
        generation.LinearClassifier([column], sparse_combiner="max")
    with pytest.raises(ValueError, match="head must be a Head.*'binary'"):
        generation.LinearEstimator("binary", [column])


def test_logit_fn_builders_make_logits_for_a_model_fn_of_ones_own(columns):
    with tf.Graph().as_default():
        features = {"a": tf.zeros([3, 2])}
        deep = dnn_logit_fn_builder(2, [4], columns.deep[:1], tf.nn.relu, None, None, False)
        assert deep(features, ModeKeys.TRAIN).shape == (3, 2)
        assert linear_logit_fn_builder(2, columns.wide[:1])(features).shape == (3, 2)
        names = {variable.op.name for variable in v1.trainable_variables()}
        assert {"hiddenlayer_0/kernel", "linear_model/bias_weights"} <= names
