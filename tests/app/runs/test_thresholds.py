"""Thresholds of labels are chosen for the best F1, and kept in a file."""

import json

import numpy as np
import pytest

from estimator_train.app.metrics import tasks
from estimator_train.app.runs import thresholds

RNG = np.random.default_rng(7)
NAMES = ("cat", "dog", "owl")
LABELS = (RNG.random((60, 3)) < [0.5, 0.1, 0.3]).astype("float32")
PROBABILITIES = np.clip(0.15 + 0.2 * LABELS + RNG.normal(0, 0.1, LABELS.shape), 0, 1)


def f1_scores(truth, predicted):
    """The F1 of each row of predictions."""
    return 2 * (predicted * truth).sum(axis=1) / np.maximum(predicted.sum(axis=1) + truth.sum(), 1)


def test_no_other_threshold_gives_a_label_a_higher_f1():
    chosen = thresholds.choose(NAMES, LABELS, PROBABILITIES)
    every = np.linspace(0, 1, 2001)[:, None]
    for index, name in enumerate(NAMES):
        truth, scores = LABELS[:, index], PROBABILITIES[:, index]
        (ours,) = f1_scores(truth, scores[None] >= chosen[name])
        assert ours == pytest.approx(f1_scores(truth, scores >= every).max())


def test_the_macro_f1_rises_with_the_chosen_thresholds():
    usual = tasks.named("multilabel").result(NAMES, LABELS, PROBABILITIES)
    chosen = thresholds.choose(NAMES, LABELS, PROBABILITIES)
    better = tasks.named("multilabel", chosen).result(NAMES, LABELS, PROBABILITIES)
    assert better.macro_f1 > usual.macro_f1 + 0.2  # most probabilities are below 0.5
    assert (usual.thresholds, better.thresholds) == (None, chosen)


@pytest.mark.parametrize(
    ("labels", "scores", "threshold"),
    [
        ([1, 1, 0], [0.4, 0.3, 0.1], 0.2),
        ([1, 0], [0.9, 0.2], 0.55),
        ([1, 1], [0.9, 0.2], 0.1),  # all examples have it
        ([0, 0], [0.9, 0.2], 0.5),  # none has it
        ([1, 0, 1, 0, 0], [0.8, 0.7, 0.6, 0.3, 0.2], 0.45),
        ([1, 0, 0, 1], [0.9, 0.6, 0.5, 0.4], 0.75),  # an F1 of 2/3, also at 0.2, which is further from 0.5
    ],
)
def test_a_threshold_is_the_middle_of_a_gap(labels, scores, threshold):
    (chosen,) = thresholds.choose(["cat"], np.array([labels]).T, np.array([scores]).T).values()
    assert chosen == pytest.approx(threshold)


CHOSEN = thresholds.Thresholds({"cat": 0.25, "dog": 0.5}, "model.ckpt-6", "validation", 12)


def test_they_are_read_in_the_order_of_the_labels(tmp_path):
    assert thresholds.read(tmp_path, ["cat", "dog"]) is None
    thresholds.write(tmp_path, CHOSEN)
    assert thresholds.read(tmp_path, ["cat", "dog"]) == CHOSEN
    assert list(thresholds.read(tmp_path, ["dog", "cat"]).values) == ["dog", "cat"]
    assert json.loads((tmp_path / "thresholds.json").read_text())["criterion"] == "F1"


@pytest.mark.parametrize("change", [{"values": {"cat": 0.5}}, {"values": {"cat": 2, "dog": 0}}, {"values": [1, 2]}])
def test_those_of_other_labels_are_one_line(tmp_path, change):
    thresholds.write(tmp_path, CHOSEN._replace(**change))
    with pytest.raises(ValueError, match=r"thresholds.json cannot be read: .*; choose thresholds again, or delete it"):
        thresholds.read(tmp_path, ["cat", "dog"])


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000])
def test_a_damaged_file_is_one_line(tmp_path, text):
    (tmp_path / "thresholds.json").write_text(text)
    with pytest.raises(ValueError, match="thresholds.json cannot be read: "):
        thresholds.read(tmp_path, ["cat", "dog"])
