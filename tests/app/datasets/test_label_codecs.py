"""The cells of a manifest are read by task."""

import numpy as np
import pytest

from estimator_train.app.datasets.label_codecs import CODECS
from estimator_train.app.models import TASKS


def test_there_is_a_codec_for_each_task():
    assert tuple(CODECS) == TASKS


@pytest.mark.parametrize(
    "task, texts, names, encoded, counts",
    [
        ("classification", ["dog", "cat", "dog"], ["cat", "dog"], [1, 0, 1], {"cat": 1, "dog": 2}),
        ("multilabel", ["cat|dog", "", " dog "], ["cat", "dog"], [[1, 1], [0, 0], [0, 1]], {"cat": 1, "dog": 2}),
        ("regression", ["1", "-2.5", "1e1"], [], [[1], [-2.5], [10]], {}),
    ],
)
def test_labels_are_read_named_encoded_and_counted(task, texts, names, encoded, counts):
    codec = CODECS[task]
    labels = [codec.read(text) for text in texts]
    assert sorted(set().union(*map(codec.names, labels))) == names
    assert codec.encode(labels, names).tolist() == encoded
    assert codec.counts(codec.encode(labels, names), names) == counts


@pytest.mark.parametrize(
    "task, text, message",
    [
        ("classification", "", "has no label"),
        ("classification", "cat|dog", "has several labels, cat|dog, which need the task multilabel"),
        ("regression", "two", "has the label 'two', which is not a number"),
        ("regression", "1e39", "has the label 1e39, which float32 cannot hold"),
    ],
)
def test_a_cell_that_is_no_label_of_the_task_is_refused(task, text, message):
    with pytest.raises(ValueError) as caught:
        CODECS[task].read(text)
    assert str(caught.value) == message


def test_only_classes_keep_their_shares_and_only_numbers_have_moments():
    assert [CODECS[task].group("a") for task in TASKS] == ["a", None, None]
    assert [CODECS[task].num_classes(["a", "b"]) for task in TASKS] == [2, None, None]
    numbers = np.array([[1.0], [3.0]], np.float32)
    assert [CODECS[task].moments(numbers, None) for task in TASKS] == [None, None, (2.0, 1.0)]
    assert CODECS["regression"].moments(numbers[:1], None) == (1.0, 1.0)  # a deviation of 0 would divide by 0
