"""Heads with one output give the numbers of TensorFlow 2.15.1's heads for the same inputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.model_fn import ModeKeys, metric_pair
from estimator_train.export import ClassificationOutput, PredictOutput, RegressionOutput
from estimator_train.heads import (
    BinaryClassHead,
    LogisticRegressionHead,
    MultiClassHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
    binary_or_multi_class_head,
)

v1 = tf.compat.v1

WEIGHTS = [1.0, 2.0, 0.0, 3.0]
REGULARIZATION = [0.25, 0.5]
ONE_LOGIT = [[2.0], [-1.0], [0.5], [-3.0]]
TWO_LOGITS = [[1.0, 2.0], [3.0, -1.0], [-2.0, 0.5], [0.5, 0.5]]
THREE_LOGITS = [[1.0, 2.0, -1.0], [0.0, 0.5, 0.25], [3.0, -2.0, 1.0], [-1.0, -1.0, 2.0]]
PETS = ["cat", "dog", "bird"]


def absolute_error(labels, logits):
    return tf.abs(labels - logits)


class Case(NamedTuple):
    """A head's arguments and a batch, and what comes of them."""

    head: type
    arguments: dict
    logits: list
    labels: list
    losses: tuple  # without weights; with weights; summed with weights; all three regularized
    metrics: dict  # with weights
    trained: list  # the logits after a step of SGD(0.5) with weights, the logits being the variables


CASES = {
    "binary": Case(
        BinaryClassHead,
        {"thresholds": [0.25, 0.5]},
        ONE_LOGIT,
        [[1], [0], [0], [1]],
        (1.86571, 3.2248, 10.64921),
        {
            "accuracy": 0.5,
            "accuracy/positive_threshold_0.25": 0.16667,
            "accuracy/positive_threshold_0.5": 0.5,
            "accuracy_baseline": 0.66667,
            "auc": 0.25,
            "auc_precision_recall": 0.65343,
            "average_loss": 1.64987,
            "label/mean": 0.66667,
            "precision": 1.0,
            "precision/positive_threshold_0.25": 0.33333,
            "precision/positive_threshold_0.5": 1.0,
            "prediction/mean": 0.26016,
            "recall": 0.25,
            "recall/positive_threshold_0.25": 0.25,
            "recall/positive_threshold_0.5": 0.25,
            "regularization_loss": 0.75,
        },
        [[2.0149], [-1.06724], [0.5], [-2.64278]],
    ),
    "binary of strings": Case(
        BinaryClassHead,
        {"label_vocabulary": ["no", "yes"], "name": "b"},
        ONE_LOGIT,
        [["yes"], ["no"], ["no"], ["yes"]],
        (1.86571, 3.2248, 10.64921),
        {
            "accuracy/b": 0.5,
            "accuracy_baseline/b": 0.66667,
            "auc/b": 0.25,
            "auc_precision_recall/b": 0.65343,
            "average_loss/b": 1.64987,
            "label/mean/b": 0.66667,
            "precision/b": 1.0,
            "prediction/mean/b": 0.26016,
            "recall/b": 0.25,
            "regularization_loss/b": 0.75,
        },
        [[2.0149], [-1.06724], [0.5], [-2.64278]],
    ),
    "multi-class": Case(
        MultiClassHead,
        {"n_classes": 3},
        THREE_LOGITS,
        [[1], [0], [2], [2]],
        (1.73653, 1.59311, 4.12246),
        {"accuracy": 0.66667, "average_loss": 0.56208, "regularization_loss": 0.75},
        [[0.96756, 2.03683, -1.00439], [0.18643, 0.39519, 0.16838], [3.0, -2.0, 1.0], [-1.01698, -1.01698, 2.03396]],
    ),
    "multi-class of strings": Case(
        MultiClassHead,
        {"n_classes": 3, "label_vocabulary": PETS, "name": "m"},
        THREE_LOGITS,
        [["dog"], ["cat"], ["bird"], ["bird"]],
        (1.73653, 1.59311, 4.12246),
        {"accuracy/m": 0.66667, "average_loss/m": 0.56208, "regularization_loss/m": 0.75},
        [[0.96756, 2.03683, -1.00439], [0.18643, 0.39519, 0.16838], [3.0, -2.0, 1.0], [-1.01698, -1.01698, 2.03396]],
    ),
    "multi-label": Case(
        MultiLabelHead,
        {"n_classes": 3, "thresholds": [0.5], "classes_for_class_based_metrics": [0, 2]},
        THREE_LOGITS,
        [[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 0, 0]],
        (1.7699, 2.12501, 6.25004),
        {
            "accuracy/positive_threshold_0.5": 0.61111,
            "auc": 0.51786,
            "auc/class0": 1.0,
            "auc/class2": 0.0,
            "auc_precision_recall": 0.21073,
            "auc_precision_recall/class0": 1.0,
            "auc_precision_recall/class2": 0.30685,
            "average_loss": 0.91667,
            "precision/positive_threshold_0.5": 0.33333,
            "probability_mean/class0": 0.42298,
            "probability_mean/class2": 0.67261,
            "recall/positive_threshold_0.5": 0.75,
            "regularization_loss": 0.75,
        },
        [[1.01121, 1.9633, -0.96954], [-0.04167, 0.44813, 0.28649], [3.0, -2.0, 1.0], [-1.03362, -1.03362, 1.8899]],
    ),
    "regression": Case(
        RegressionHead,
        {"label_dimension": 2},
        TWO_LOGITS,
        [[1.0, 1.0], [2.0, 0.0], [0.0, 0.0], [1.0, 3.0]],
        (2.46875, 3.8125, 25.25),
        {"average_loss": 2.04167, "label/mean": 1.5, "prediction/mean": 0.83333, "regularization_loss": 0.75},
        [[1.0, 1.875], [2.75, -0.75], [-2.0, 0.5], [0.6875, 1.4375]],
    ),
    "regression with a link and a loss": Case(
        RegressionHead,
        {"inverse_link_fn": tf.exp, "loss_fn": absolute_error},
        ONE_LOGIT,
        [[1.0], [2.0], [0.0], [1.0]],
        (2.875, 5.5, 19.75),
        {"average_loss": 3.16667, "label/mean": 1.33333, "prediction/mean": 1.37903, "regularization_loss": 0.75},
        [[1.875], [-0.75], [0.5], [-2.625]],
    ),
    "Poisson regression": Case(
        PoissonRegressionHead,
        {},
        ONE_LOGIT,
        [[1.0], [2.0], [0.0], [5.0]],
        (8.21952, 18.47258, 71.64034),
        {"average_loss": 11.81506, "label/mean": 3.33333, "prediction/mean": 1.37903, "regularization_loss": 0.75},
        [[1.20137], [-0.59197], [0.5], [-1.14367]],
    ),
    "Poisson regression without the constant": Case(
        PoissonRegressionHead,
        {"compute_full_loss": False},
        ONE_LOGIT,
        [[1.0], [2.0], [0.0], [5.0]],
        (6.86386, 14.56854, 56.02418),
        {"average_loss": 9.21236, "label/mean": 3.33333, "prediction/mean": 1.37903, "regularization_loss": 0.75},
        [[1.20137], [-0.59197], [0.5], [-1.14367]],
    ),
    "logistic regression": Case(
        LogisticRegressionHead,
        {},
        ONE_LOGIT,
        [[0.5], [0.25], [0.0], [1.0]],
        (2.17821, 3.5998, 12.14921),
        {"average_loss": 1.89987, "label/mean": 0.66667, "prediction/mean": 0.26016, "regularization_loss": 0.75},
        [[1.9524], [-1.00474], [0.5], [-2.64278]],
    ),
}

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def spec_of(case, mode, logits=None, optimizer=None, variables=None, **arguments):
    return case.head(**case.arguments, **arguments).create_estimator_spec(
        {"weight": tf.constant(WEIGHTS)},
        mode,
        tf.constant(case.logits) if logits is None else logits,
        tf.constant(case.labels),
        optimizer=optimizer,
        trainable_variables=variables,
        regularization_losses=[tf.constant(value) for value in REGULARIZATION],
    )


@pytest.mark.slow
@cases
def test_metrics_and_every_reduction_of_the_loss_are_those_of_tf_215(case, run):
    unweighted = spec_of(case, ModeKeys.EVAL).loss
    summed = spec_of(case, ModeKeys.EVAL, weight_column="weight", loss_reduction="sum").loss
    spec = spec_of(case, ModeKeys.EVAL, weight_column="weight")
    pairs = {key: metric_pair(key, metric) for key, metric in spec.eval_metric_ops.items()}
    values = {key: value for key, (value, _) in pairs.items()}
    losses, results = run([update for _, update in pairs.values()], [[unweighted, spec.loss, summed], values])
    assert losses == pytest.approx(case.losses, abs=2e-5)
    assert results == pytest.approx(case.metrics, abs=2e-5)


LEGACY, NEW, V1 = keras.optimizers.legacy.SGD, keras.optimizers.SGD, v1.train.GradientDescentOptimizer


@pytest.mark.parametrize(
    ("case", "optimizer"),
    [*((case, LEGACY) for case in CASES.values()), (CASES["binary"], NEW), (CASES["multi-class"], V1)],
    ids=[*CASES, "binary with a new optimizer", "multi-class with a v1 optimizer"],
)
def test_a_training_step_is_that_of_tf_215(case, optimizer, run):
    logits = v1.get_variable("logits", initializer=case.logits)
    step = v1.train.get_or_create_global_step()
    spec = spec_of(case, ModeKeys.TRAIN, logits, optimizer(0.5), [logits], weight_column="weight")
    trained, steps = run(spec.train_op, [logits, step])
    assert trained == pytest.approx(np.array(case.trained), abs=2e-5)
    assert steps == 1


def test_metrics_take_one_batch_after_the_other(evaluate):
    spec = spec_of(CASES["binary"], ModeKeys.EVAL, weight_column="weight")
    assert evaluate(spec, times=2) == pytest.approx({"loss": 3.2248, **CASES["binary"].metrics}, abs=2e-5)


def test_metrics_without_regularization_losses_have_none(graph):
    for none in (None, []):
        assert set(RegressionHead().metrics(none)) == {"average_loss", "prediction/mean", "label/mean"}


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("weighted_sum", 1 + 2 * 4 + 3 * 9),
        ("weighted_mean", (1 + 2 * 4 + 3 * 9) / 6),
        ("weighted_sum_over_batch_size", (1 + 2 * 4 + 3 * 9) / 4),
        ("weighted_sum_by_nonzero_weights", (1 + 2 * 4 + 3 * 9) / 3),
        ("auto", (1 + 2 * 4 + 3 * 9) / 4),
    ],
)
def test_other_spellings_of_loss_reduction(reduction, expected, run):
    head = RegressionHead(weight_column="weight", loss_reduction=reduction)
    loss = head.loss(tf.zeros([4, 1]), tf.constant([[1.0], [2.0], [9.0], [3.0]]), {"weight": tf.constant(WEIGHTS)})
    assert run(loss) == pytest.approx(expected)
    assert head.loss_reduction == reduction


def test_weights_through_a_numeric_column(run):
    column = tf.feature_column.numeric_column("weight", normalizer_fn=lambda weights: weights / 2)
    features = {"weight": tf.constant([1, 2])}
    loss = RegressionHead(weight_column=column, loss_reduction="sum").loss(tf.zeros([2]), tf.ones([2, 1]), features)
    assert run(loss) == 1.5


def test_weights_of_every_number_of_a_label(run):
    features = {"weight": tf.constant([[1.0, 2.0], [0.0, 3.0]])}
    head = RegressionHead(2, weight_column="weight", loss_reduction="sum")
    assert run(head.loss(tf.zeros([2, 2]), tf.constant([[1.0, 2.0], [3.0, 1.0]]), features)) == 12


def test_loss_fn_is_given_what_it_names(run):
    def loss_fn(labels, logits, features, loss_reduction):
        assert loss_reduction == "sum"
        return features["scale"] * (logits - labels)

    head = BinaryClassHead(loss_fn=loss_fn, loss_reduction="sum")
    assert run(head.loss(tf.constant([1, 0]), tf.constant([[3.0], [1.0]]), {"scale": tf.constant(10.0)})) == 30


def test_labels_and_weights_may_lack_the_last_dimension_and_have_more(run):
    logits = tf.constant(np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    features = {"weight": tf.constant([[1.0, 2.0], [0.0, 1.0]])}
    loss = MultiClassHead(3, weight_column="weight").loss(tf.constant([[1, 2], [0, 0]]), logits, features)
    assert run(loss) == pytest.approx(1.1576059)


def test_sparse_labels_of_multi_label_are_ids_or_strings(run):
    logits = tf.constant([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]])
    indices = [[0, 0], [0, 1], [1, 0]]
    ids = MultiLabelHead(3).loss(tf.SparseTensor(indices, [0, 2, 1], [2, 2]), logits)
    strings = MultiLabelHead(3, label_vocabulary=PETS).loss(
        tf.SparseTensor(indices, ["cat", "bird", "dog"], [2, 2]), logits
    )
    assert run([ids, strings]) == pytest.approx([1.1449269, 1.1449269])


def test_class_metrics_are_called_by_the_vocabulary(graph):
    head = MultiLabelHead(3, label_vocabulary=["a cat", "dog", "bird"], classes_for_class_based_metrics=["a cat"])
    assert {"probability_mean/a cat", "auc/a cat", "auc_precision_recall/a cat"} < set(head.metrics())


def test_predictions_of_two_classes(run):
    predictions = run(BinaryClassHead().predictions(tf.constant([[2.0], [-1.0]])))
    assert predictions["logistic"] == pytest.approx(np.array([[0.8808], [0.26894]]), abs=1e-5)
    assert predictions["probabilities"] == pytest.approx(np.array([[0.1192, 0.8808], [0.73106, 0.26894]]), abs=1e-5)
    assert {key: value.tolist() for key, value in predictions.items() if "class" in key} == {
        "class_ids": [[1], [0]],
        "classes": [[b"1"], [b"0"]],
        "all_class_ids": [[0, 1], [0, 1]],
        "all_classes": [[b"0", b"1"], [b"0", b"1"]],
    }


def test_predictions_of_more_classes(run):
    predictions = run(MultiClassHead(3, label_vocabulary=PETS).predictions(tf.constant(THREE_LOGITS[:2])))
    assert predictions["probabilities"][0] == pytest.approx([0.2595, 0.70538, 0.03512], abs=1e-5)
    assert {key: value.tolist() for key, value in predictions.items() if key != "probabilities"} == {
        "logits": THREE_LOGITS[:2],
        "class_ids": [[1], [1]],
        "classes": [[b"dog"], [b"dog"]],
        "all_class_ids": [[0, 1, 2]] * 2,
        "all_classes": [[b"cat", b"dog", b"bird"]] * 2,
    }


@pytest.mark.parametrize("shape", [[None, None], None])
def test_logits_of_a_shape_known_only_at_run_time(shape, run):
    logits = v1.placeholder_with_default(tf.constant(THREE_LOGITS), shape)
    assert run(MultiClassHead(3).predictions(logits)["class_ids"]).tolist() == [[1], [1], [0], [2]]
    assert run(MultiClassHead(3).loss(tf.constant([[1], [0], [2], [2]]), logits)) == pytest.approx(0.98653, abs=2e-5)


def test_predictions_of_multi_label(run):
    predictions = run(MultiLabelHead(3).predictions(tf.constant(THREE_LOGITS[:1])))
    assert predictions["probabilities"] == pytest.approx(np.array([[0.73106, 0.8808, 0.26894]]), abs=1e-5)
    assert predictions["classes"].tolist() == [[b"0", b"1", b"2"]]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (RegressionHead(), {"predictions": 2.0}),
        (PoissonRegressionHead(), {"predictions": 7.38906, "logits": 2.0}),
        (LogisticRegressionHead(), {"predictions": 0.8808, "logits": 2.0}),
    ],
)
def test_predictions_of_regression(head, expected, run):
    predictions = run(head.predictions(tf.constant([[2.0]])))
    assert {key: value.item() for key, value in predictions.items()} == pytest.approx(expected, abs=1e-5)


def test_predictions_of_some_keys(graph):
    assert set(BinaryClassHead().predictions(tf.constant([[1.0]]), ["classes", "logits"])) == {"classes", "logits"}
    with pytest.raises(ValueError, match="given: scores"):
        BinaryClassHead().predictions(tf.constant([[1.0]]), ["scores"])


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            BinaryClassHead(),
            {"serving_default": ClassificationOutput, "classification": ClassificationOutput}
            | {"regression": RegressionOutput, "predict": PredictOutput},
        ),
        (
            MultiClassHead(3),
            {"serving_default": ClassificationOutput, "classification": ClassificationOutput}
            | {"predict": PredictOutput},
        ),
        (
            MultiLabelHead(3),
            {"serving_default": ClassificationOutput, "classification": ClassificationOutput}
            | {"predict": PredictOutput},
        ),
        (
            RegressionHead(),
            {"serving_default": RegressionOutput, "regression": RegressionOutput, "predict": PredictOutput},
        ),
    ],
)
def test_export_outputs(head, expected, graph):
    spec = head.create_estimator_spec({}, ModeKeys.PREDICT, tf.zeros([4, head.logits_dimension]))
    assert {key: type(output) for key, output in spec.export_outputs.items()} == expected
    assert spec.export_outputs["predict"].outputs.keys() == spec.predictions.keys()


def test_served_classes_are_named_by_the_vocabulary(run):
    head = MultiClassHead(3, label_vocabulary=PETS)
    output = head.create_estimator_spec({}, ModeKeys.PREDICT, tf.zeros([1, 3])).export_outputs["serving_default"]
    assert run(output.classes).tolist() == [[b"cat", b"dog", b"bird"]]


def test_heads_work_eagerly():
    head = BinaryClassHead(label_vocabulary=["no", "yes"])
    metrics = head.metrics()
    for labels in ([["yes"], ["no"]], [["no"], ["no"]]):
        head.update_metrics(metrics, {}, tf.constant([[1.0], [1.0]]), tf.constant(labels))
    assert metrics["accuracy"].result() == 0.25
    assert metrics["accuracy_baseline"].result() == 0.75
    assert head.loss(tf.constant([["yes"]]), tf.constant([[0.0]])).numpy() == pytest.approx(np.log(2))


def test_a_classifier_has_the_head_of_its_number_of_classes(graph):
    assert isinstance(binary_or_multi_class_head(2, None, None, "sum"), BinaryClassHead)
    head = binary_or_multi_class_head(3, None, PETS, "sum")
    assert isinstance(head, MultiClassHead)
    assert head.loss_reduction == "sum"
