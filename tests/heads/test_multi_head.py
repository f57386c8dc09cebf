"""MultiHead. The numbers are what TensorFlow 2.15.1's gave for the same inputs."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.model_fn import ModeKeys
from estimator_train.export import ClassificationOutput, PredictOutput, RegressionOutput
from estimator_train.heads import BinaryClassHead, MultiHead, RegressionHead

v1 = tf.compat.v1

LOGITS = [[2.0, 1.0, 2.0], [-1.0, 3.0, -1.0], [0.5, -2.0, 0.5], [-3.0, 0.5, 0.5]]
LABELS = {"a": [[1], [0], [0], [1]], "c": [[1.0, 1.0], [2.0, 0.0], [0.0, 0.0], [1.0, 3.0]]}
FEATURES = {"weight": [1.0, 2.0, 0.0, 3.0]}
REGULARIZATION = [0.25, 0.5]


def make_head(**arguments):
    heads = [BinaryClassHead(name="a", **arguments), RegressionHead(2, name="c", **arguments)]
    return MultiHead(heads, [1.0, 0.5])


def constants(values):
    return {key: tf.constant(value) for key, value in values.items()}


def spec_of(head, mode, logits, optimizer=None, variables=None):
    return head.create_estimator_spec(
        constants(FEATURES),
        mode,
        logits,
        constants(LABELS),
        optimizer=optimizer,
        trainable_variables=variables,
        regularization_losses=[tf.constant(value) for value in REGULARIZATION],
    )


def test_loss_and_metrics_are_those_of_tf_215(evaluate):
    spec = spec_of(make_head(weight_column="weight"), ModeKeys.EVAL, tf.constant(LOGITS))
    expected = {
        "accuracy/a": 0.5,
        "accuracy_baseline/a": 0.66667,
        "auc/a": 0.25,
        "auc_precision_recall/a": 0.65343,
        "average_loss/a": 1.64987,
        "average_loss/c": 2.04167,
        "label/mean/a": 0.66667,
        "label/mean/c": 1.5,
        "loss/a": 2.4748,
        "loss/c": 3.0625,
        "precision/a": 1.0,
        "prediction/mean/a": 0.26016,
        "prediction/mean/c": 0.83333,
        "recall/a": 0.25,
        "regularization_loss/a_c": 0.75,
    }
    assert evaluate(spec) == pytest.approx({"loss": 4.75605, **expected}, abs=2e-5)


@pytest.mark.parametrize(
    ("reduction", "expected"), [("sum_over_batch_size", 4.75605), pytest.param("sum", 22.89921, marks=pytest.mark.slow)]
)
def test_loss_is_reduced_by_the_heads(reduction, expected, run):
    head = make_head(weight_column="weight", loss_reduction=reduction)
    assert run(spec_of(head, ModeKeys.EVAL, tf.constant(LOGITS)).loss) == pytest.approx(expected, abs=2e-5)
    assert head.loss_reduction == reduction


def test_a_training_step_is_that_of_tf_215(run):
    logits = v1.get_variable("logits", initializer=LOGITS)
    spec = spec_of(
        make_head(weight_column="weight"), ModeKeys.TRAIN, logits, keras.optimizers.legacy.SGD(0.5), [logits]
    )
    expected = [[2.0149, 1.0, 1.9375], [-1.06724, 2.875, -0.875], [0.5, -2.0, 0.5], [-2.64278, 0.59375, 0.96875]]
    assert run(spec.train_op, logits) == pytest.approx(np.array(expected), abs=2e-5)


def test_optimizer_variables_have_the_names_of_tf_215(graph):
    logits = v1.get_variable("logits", initializer=LOGITS)
    spec_of(make_head(), ModeKeys.TRAIN, logits, keras.optimizers.legacy.Adam(0.5), [logits])
    assert "training_2/Adam/logits/m" in {variable.op.name for variable in v1.global_variables()}


def test_metrics_take_one_batch_after_the_other():
    head = MultiHead([RegressionHead(name="a")])
    metrics = head.metrics()
    for label in (1.0, 3.0):
        head.update_metrics(metrics, {}, {"a": tf.zeros([1, 1])}, {"a": tf.constant([[label]])})
    assert {key: metric.result().numpy() for key, metric in metrics.items()} == {
        "loss/a": 5.0,
        "average_loss/a": 5.0,
        "prediction/mean/a": 0.0,
        "label/mean/a": 2.0,
    }


def test_training_writes_the_loss_of_every_head(graph):
    logits = v1.get_variable("logits", initializer=LOGITS)
    spec_of(make_head(), ModeKeys.TRAIN, logits, v1.train.GradientDescentOptimizer(0.5), [logits])
    tags = {summary.op.name for summary in v1.get_collection(v1.GraphKeys.SUMMARIES)}
    assert tags == {"loss/a", "loss/c", "loss", "regularization_loss"}  # as TensorFlow 2.15.1 writes them


def test_logits_may_be_given_by_head(run):
    head = make_head()
    logits = v1.placeholder_with_default(LOGITS, [None, 3])  # of constants, some predictions are rounded otherwise
    together = head.predictions(logits)
    by_head = head.predictions({"a": logits[:, :1], "c": logits[:, 1:]})
    assert together.keys() == by_head.keys()
    for together_value, by_head_value in run([(together[key], by_head[key]) for key in together]):
        assert together_value.tolist() == by_head_value.tolist()
    assert run(together["c", "predictions"]).tolist() == [row[1:] for row in LOGITS]


def test_a_prediction_of_no_head_is_refused_with_the_keys_that_exist(graph):
    with pytest.raises(ValueError, match=r"given: \('a', 'class'\). Valid keys: \[\('a', 'logits'\)"):
        make_head().predictions(tf.constant(LOGITS), keys=[("a", "class")])


def test_export_outputs_are_those_of_the_heads(graph):
    spec = make_head().create_estimator_spec({}, ModeKeys.PREDICT, tf.constant(LOGITS))
    assert {key: type(output) for key, output in spec.export_outputs.items()} == {
        "serving_default": ClassificationOutput,
        "a": ClassificationOutput,
        "a/classification": ClassificationOutput,
        "a/regression": RegressionOutput,
        "a/predict": PredictOutput,
        "c": RegressionOutput,
        "c/regression": RegressionOutput,
        "c/predict": PredictOutput,
        "predict": PredictOutput,
    }
    assert {"a/logits", "a/classes", "c/predictions"} < set(spec.export_outputs["predict"].outputs)


def test_name_and_size_are_those_of_the_heads_together():
    assert make_head().name == "a_c"
    assert make_head().logits_dimension == 3


@pytest.mark.parametrize(
    ("labels", "logits", "message"),
    [
        ({"a": [[1]]}, [[1.0, 1.0, 1.0]], r"labels has missing values for head\(s\): \['c'\]"),
        ([[1]], [[1.0, 1.0, 1.0]], "labels must be a dict"),
        (None, [[1.0, 1.0, 1.0]], "labels must be a dict"),
        ({"a": [[1]], "c": [[1.0, 1.0]]}, {"c": [[1.0, 1.0]]}, r"logits has missing values for head\(s\): \['a'\]"),
        ({"a": [[1]], "c": [[1.0, 1.0]]}, [[1.0, 1.0]], r"got \(1, 2\); the logits_dimension is 3"),
    ],
)
def test_labels_and_logits_that_do_not_fit_are_refused(labels, logits, message, graph):
    with pytest.raises(ValueError, match=message):
        make_head().loss(labels, logits)


def test_heads_with_different_reductions_have_none_together():
    head = MultiHead([RegressionHead(name="a"), RegressionHead(name="b", loss_reduction="sum")])
    with pytest.raises(ValueError, match="must be the same"):
        _ = head.loss_reduction


def test_heads_with_different_reductions_do_not_train_on_replicas(mirrored):
    head, one = MultiHead([RegressionHead(name="a"), RegressionHead(name="b", loss_reduction="sum")]), tf.ones([2, 1])
    data = {"a": one, "b": one}
    assert head.loss(data, data, mode=ModeKeys.TRAIN) == 0
    with mirrored(2).scope(), pytest.raises(ValueError, match="must be the same"):
        head.loss(data, data, mode=ModeKeys.TRAIN)


def test_heads_that_would_share_a_metric_are_refused():
    class Squared(RegressionHead):
        def metrics(self, regularization_losses=None):
            return {"mse": keras.metrics.MeanSquaredError()}

    with pytest.raises(ValueError, match="head b has metrics of another head, mse; call them mse/b"):
        MultiHead([Squared(name="a"), Squared(name="b")]).metrics()
