"""Metrics for several labels and for regression, and the worst examples."""

import dataclasses

import numpy as np
import pytest
from sklearn import metrics

from estimator_train.app.metrics import tasks

RNG = np.random.default_rng(4)
LABELS = (RNG.random((40, 3)) < [0.5, 0.2, 0.8]).astype("float32")
PROBABILITIES = np.clip(0.3 + 0.4 * LABELS + RNG.normal(0, 0.3, LABELS.shape), 0, 1)
NAMES = ("cat", "dog", "x" * 40)


def test_several_labels_have_the_numbers_of_scikit_learn():
    result = tasks.named("multilabel").result(NAMES, LABELS, PROBABILITIES)
    predicted = PROBABILITIES >= 0.5
    for index, of in enumerate(result.labels.values()):
        truth, score = LABELS[:, index], PROBABILITIES[:, index]
        assert of.precision == pytest.approx(metrics.precision_score(truth, predicted[:, index]))
        assert of.recall == pytest.approx(metrics.recall_score(truth, predicted[:, index]))
        assert of.roc_auc == pytest.approx(metrics.roc_auc_score(truth, score))
        assert of.support == truth.sum()
    assert result.macro_f1 == pytest.approx(metrics.f1_score(LABELS, predicted, average="macro"))
    assert result.exact_match == pytest.approx(metrics.accuracy_score(LABELS, predicted))
    lines = tasks.named("multilabel").table(result).splitlines()
    assert max(map(len, lines)) <= 80 and lines[2].startswith("cat")


def test_one_label_alone_is_measured():
    result = tasks.named("multilabel").result(["cat"], LABELS[:, :1], PROBABILITIES[:, :1])
    assert result.labels["cat"].support == LABELS[:, 0].sum()
    assert result.labels["cat"].f1 == pytest.approx(metrics.f1_score(LABELS[:, 0], PROBABILITIES[:, 0] >= 0.5))


def test_a_regression_has_the_numbers_of_scikit_learn():
    labels, predictions = RNG.normal(5, 3, (30, 1)), RNG.normal(5, 3, (30, 1))
    result = tasks.named("regression").result((), labels, predictions)
    assert result.mean_absolute_error == pytest.approx(metrics.mean_absolute_error(labels, predictions))
    assert result.root_mean_squared_error == pytest.approx(metrics.root_mean_squared_error(labels, predictions))
    assert result.r2 == pytest.approx(metrics.r2_score(labels, predictions))
    assert tasks.named("regression").result((), np.ones((3, 1)), np.zeros((3, 1))).r2 is None


@pytest.mark.parametrize(
    "task, outputs", [("multilabel", np.ones((40, 2))), ("multilabel", 3 * LABELS), ("regression", LABELS)]
)
def test_outputs_of_another_task_are_refused(task, outputs):
    with pytest.raises(ValueError, match="the model"):
        tasks.named(task).checked(NAMES, LABELS, outputs)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_outputs_that_are_not_finite_are_refused(task, value):
    labels = LABELS[:, :1] if task == "regression" else LABELS
    outputs = np.where(np.arange(40)[:, None] == 7, value, labels)
    with pytest.raises(ValueError, match="^the model gives numbers that are not finite$"):
        tasks.named(task).checked(NAMES, labels, outputs)


def test_the_largest_errors_come_first_and_right_labels_are_left_out():
    labels = np.array([[1.0, 0], [1, 0], [0, 0]])
    outputs = np.array([[0.9, 0.6], [0.1, 0.2], [0.4, 0.3]])
    assert tasks.named("multilabel").worst(labels, outputs).tolist() == [1, 0]
    assert tasks.named("regression").worst(labels[:, :1], outputs[:, :1]).tolist() == [1, 2, 0]


def test_labels_are_predicted_from_their_thresholds_on():
    task = tasks.named("multilabel", {"a": 0.8, "b": 0.2, "c": 0.9})
    assert task.prediction(("a", "b", "c"), np.array([0.7, 0.25, 0.95], "float32")) == "b|c"
    assert task.truth(("a", "b", "c"), np.array([1, 0, 0])) == "a"
    labels, outputs = np.array([[1.0, 0, 0], [0, 1, 1]]), np.array([[0.7, 0.1, 0.6], [0.1, 0.4, 0.95]])
    assert task.worst(labels, outputs).tolist() == [0]
    result = task.result(("a", "b", "c"), labels, outputs)
    assert (result.exact_match, result.labels["a"].recall, result.labels["b"].f1) == (0.5, 0, 1)
    text = task.table(result)
    assert text.endswith("\nlabels are predicted from these probabilities on: a 0.8000, b 0.2000, c 0.9000")
    many = task.table(dataclasses.replace(result, thresholds={"x" * 40: 0.8, "y" * 40: 0.25}))
    assert max(map(len, many.splitlines())) <= 80


def test_what_is_shown_of_an_example():
    output = np.array([0.7, 0.2, 0.9])
    assert tasks.named("multilabel").prediction(("a", "b", "c"), output) == "a|c"
    assert tasks.short(tasks.named("multilabel").truth(("a", "b", "c"), np.zeros(3))) == "none"
    assert tasks.named("classification").prediction(("a", "b", "c"), output) == "c"
    assert tasks.short(tasks.named("regression").prediction((), np.array([0.123456]))) == "0.1235"


def test_a_single_label_without_positives_scores_0():
    result = tasks.named("multilabel").result(["cat"], np.zeros([3, 1]), np.zeros([3, 1])).labels["cat"]
    assert (result.precision, result.recall, result.f1, result.support) == (0, 0, 0, 0)
