"""Metrics of the classes: worked by hand and against scikit-learn's, and a table that fits a terminal."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve

from estimator_train.app.metrics.classification import class_indices, class_probabilities, table
from estimator_train.app.metrics.classification import result as classification

NAMES = ("cat", "dog", "fox")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def made_up(examples, class_names, seed=0):
    """Returns random labels and probabilities; about half of the predictions are right."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(class_names), examples)
    scores = rng.random((examples, len(class_names))) + 0.5 * np.eye(len(class_names))[labels]
    return labels, scores / scores.sum(axis=1, keepdims=True)


def test_the_metrics_of_six_examples_are_those_worked_by_hand():
    labels = np.array([0, 0, 0, 1, 1, 2])
    probabilities = np.array(
        [[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.4, 0.5, 0.1], [0.5, 0.2, 0.3]]
    )
    result = classification(NAMES, labels, probabilities)
    assert result.confusion_matrix == [[2, 1, 0], [0, 2, 0], [1, 0, 0]]
    assert (result.examples, result.accuracy) == (6, pytest.approx(4 / 6))
    cat, dog, fox = result.classes.values()
    assert (cat.precision, cat.recall, cat.f1, cat.support) == (*[pytest.approx(2 / 3)] * 3, 3)
    assert (dog.precision, dog.recall, dog.f1, dog.support) == (pytest.approx(2 / 3), 1, pytest.approx(0.8), 2)
    assert (fox.precision, fox.recall, fox.f1, fox.support) == (0, 0, 0, 1)
    assert result.macro_f1 == pytest.approx((2 / 3 + 0.8) / 3)
    assert cat.roc_auc == pytest.approx(5.5 / 9)  # of 9 pairs with another, 5 are in order and one is a tie
    assert dog.roc_auc == pytest.approx(6 / 8)
    assert fox.roc_auc == 1
    assert result.macro_roc_auc == pytest.approx((5.5 / 9 + 6 / 8 + 1) / 3)


def test_macro_roc_auc_is_scikit_learns_one_against_the_rest():
    labels, probabilities = made_up(200, NAMES)
    expected = metrics.roc_auc_score(labels, probabilities, multi_class="ovr")
    assert classification(NAMES, labels, probabilities).macro_roc_auc == pytest.approx(expected)


def test_agreement_areas_and_calibration_are_scikit_learns():
    labels, probabilities = made_up(200, NAMES)
    predicted, confidences = probabilities.argmax(axis=1), probabilities.max(axis=1)
    result = classification(NAMES, labels, probabilities)
    assert result.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(labels, predicted))
    assert result.cohen_kappa == pytest.approx(metrics.cohen_kappa_score(labels, predicted))
    pr_auc = metrics.average_precision_score(np.eye(3)[labels], probabilities, average=None)
    assert [each.pr_auc for each in result.classes.values()] == pytest.approx(pr_auc.tolist())
    assert result.macro_pr_auc == pytest.approx(pr_auc.mean())
    shares, means = calibration_curve(predicted == labels, confidences, n_bins=10)
    np.testing.assert_allclose([bin[:2] for bin in result.calibration], np.transpose([means, shares]))
    assert sum(count for *_, count in result.calibration) == 200


def test_the_calibration_error_is_the_mean_gap_of_confidence_and_accuracy():
    probabilities = np.array([[0.9, 0.1], [0.95, 0.05], [0.4, 0.6], [1.0, 0.0]])
    result = classification(("cat", "dog"), np.array([0, 1, 1, 0]), probabilities)
    assert result.calibration == [(0.6, 1.0, 1), (pytest.approx(0.95), pytest.approx(2 / 3), 3)]
    assert result.calibration_error == pytest.approx(0.4 / 4 + 3 / 4 * (0.95 - 2 / 3))


def test_a_class_without_examples_has_no_roc_auc_and_no_warning():
    result = classification(NAMES, np.array([0, 1]), np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]]))
    fox = result.classes["fox"]
    assert (fox.precision, fox.recall, fox.f1, fox.roc_auc, fox.support) == (0, 0, 0, None, 0)
    assert result.classes["cat"].roc_auc == 0.5
    assert result.macro_roc_auc is None
    assert "n/a" in table(result)


def test_only_one_class_among_the_labels_has_no_roc_auc():
    result = classification(NAMES, np.array([1]), np.array([[0.2, 0.7, 0.1]]))
    assert [of_class.roc_auc for of_class in result.classes.values()] == [None] * 3
    assert [of_class.pr_auc for of_class in result.classes.values()] == [None] * 3
    assert (result.balanced_accuracy, result.cohen_kappa) == (1, None)
    assert (result.accuracy, result.accuracy_interval) == (1, (pytest.approx(1 / (1 + 1.96**2), rel=1e-3), 1))


def test_the_interval_is_wilsons():
    labels, probabilities = made_up(120, NAMES)
    share, z = np.mean(probabilities.argmax(axis=1) == labels), 1.959964
    center, half = share + z**2 / 240, z * np.sqrt(share * (1 - share) / 120 + z**2 / (4 * 120**2))
    expected = np.array([center - half, center + half]) / (1 + z**2 / 120)
    np.testing.assert_allclose(classification(NAMES, labels, probabilities).accuracy_interval, expected, rtol=1e-6)


def test_json_holds_all_numbers():
    labels, probabilities = made_up(30, NAMES)
    result = classification(NAMES, labels, probabilities)
    values = json.loads(json.dumps(dataclasses.asdict(result), allow_nan=False))
    assert list(values["classes"]) == list(NAMES)
    assert values["classes"]["dog"]["recall"] == result.classes["dog"].recall
    assert np.sum(values["confusion_matrix"]) == values["examples"] == 30


@pytest.mark.parametrize(
    "labels, expected",
    [
        (np.eye(3)[[2, 0, 1]], [2, 0, 1]),
        (np.array([2, 0, 1]), [2, 0, 1]),
        (np.array([[2.0], [0.0], [1.0]]), [2, 0, 1]),
    ],
)
def test_labels_are_one_hot_or_indices(labels, expected):
    indices = class_indices(labels, 3)
    assert indices.tolist() == expected and indices.dtype.kind == "i"


@pytest.mark.parametrize("labels", [np.zeros((5, 4)), np.array([0, 3]), np.array([0.5]), np.zeros((2, 3, 3))])
def test_other_labels_are_refused(labels):
    with pytest.raises(ValueError, match="neither one-hot nor indices of 3 classes"):
        class_indices(labels, 3)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_one_sigmoid_gives_the_second_of_two_classes(shape):
    sigmoid = np.array([0.1, 0.5, 0.75], "float32").reshape(shape)
    probabilities = class_probabilities(sigmoid, 2)
    np.testing.assert_allclose(probabilities, [[0.9, 0.1], [0.5, 0.5], [0.25, 0.75]], atol=1e-7)
    assert probabilities.argmax(axis=1).tolist() == [0, 0, 1]  # as Keras' binary_accuracy has it


def test_outputs_that_are_no_probabilities_of_the_classes_are_refused():
    with pytest.raises(ValueError, match=r"gives \(1,\) per example, not a probability for each of 3 classes"):
        class_probabilities(np.zeros((5, 1)), 3)
    with pytest.raises(ValueError, match="gives -2 to 1.5, not probabilities; end it with a softmax or sigmoid"):
        class_probabilities(np.array([[-2.0, 1.5]]), 2)


@pytest.mark.parametrize(
    ("classes", "name", "examples"),
    [(2, "no", 8), (4, "DRUSEN", 8), (4, "DRUSEN", 100_000), (10, "Ankle boot", 8), (14, "a class " * 8, 100_000)],
)
def test_the_table_fits_80_columns(classes, name, examples):
    names = [f"{index} {name}" for index in range(classes)]
    lines = table(classification(names, *made_up(examples, names))).splitlines()
    assert max(map(len, lines)) <= 80


def test_the_table_reads_well():
    labels = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    probabilities = np.eye(4)[[0, 0, 1, 0, 2, 2, 3, 2]] * 0.7 + 0.075
    assert table(classification(("CNV", "DME", "DRUSEN", "1e3"), labels, probabilities)) == (
        """\
class            precision    recall      F1    ROC AUC    support
-------------  -----------  --------  ------  ---------  ---------
CNV                 0.6667    1.0000  0.8000     0.9167          2
DME                 1.0000    0.5000  0.6667     0.7500          2
DRUSEN              0.6667    1.0000  0.8000     0.9167          2
1e3                 1.0000    0.5000  0.6667     0.7500          2
-------------  -----------  --------  ------  ---------  ---------
macro average       0.8333    0.7500  0.7333     0.8333          8

true \\ predicted  CNV  DME  DRUSEN  1e3
CNV                 2    0       0    0
DME                 1    1       0    0
DRUSEN              0    0       2    0
1e3                 0    0       1    1

accuracy 0.7500, 95 % Wilson interval 0.4093 to 0.9285, of 8 examples
balanced accuracy 0.7500, Cohen's kappa 0.6667
macro average of PR AUC 0.6458, calibration error 0.0250"""
    )


def test_many_classes_show_their_most_frequent_mistakes():
    names = [f"class {index}" for index in range(100)]
    labels = np.repeat(np.arange(100), 3)
    predicted = labels.copy()
    predicted[[9, 10, 21]] = [40, 40, 99]
    lines = table(classification(names, labels, np.eye(100)[predicted])).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("most frequent mistakes"))
    assert [line.split() for line in lines[start + 2 : start + 5]] == [
        ["class", "3", "class", "40", "2"],
        ["class", "7", "class", "99", "1"],
        [],
    ]


def test_many_classes_without_mistakes_have_a_table_too():
    names = [f"class {index}" for index in range(100)]
    assert "most frequent mistakes" in table(classification(names, np.arange(100), np.eye(100)))
