"""The cells of a manifest are read by task."""

import pytest

from estimator_train.app.datasets.label_codecs import CODECS
from estimator_train.app.models import TASKS


def test_there_is_a_codec_for_each_task():
    assert tuple(CODECS) == TASKS


@pytest.mark.parametrize(
    "task, texts, names, encoded",
    [
        ("classification", ["dog", "cat", "dog"], ["cat", "dog"], [1, 0, 1]),
        ("multilabel", ["cat|dog", "", " dog "], ["cat", "dog"], [[1, 1], [0, 0], [0, 1]]),
        ("regression", ["1", "-2.5", "1e1"], [], [[1], [-2.5], [10]]),
    ],
)
def test_labels_are_read_named_and_encoded(task, texts, names, encoded):
    codec = CODECS[task]
    labels = [codec.read(text) for text in texts]
    assert sorted(set().union(*map(codec.names, labels))) == names
    assert codec.encode(labels, names).tolist() == encoded


@pytest.mark.parametrize(
    "task, text, message",
    [
        ("classification", "", "has no label"),
        ("classification", "cat|dog", "has several labels, 'cat|dog', which need the task multilabel"),
        ("regression", "two", "has the label 'two', which is not a number"),
        ("regression", "1e39", "has the label 1e39, which float32 cannot hold"),
    ],
)
def test_a_cell_that_is_no_label_of_the_task_is_refused(task, text, message):
    with pytest.raises(ValueError) as caught:
        CODECS[task].read(text)
    assert str(caught.value) == message
