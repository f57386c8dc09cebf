"""What heads refuse: labels, logits, weights and arguments that do not fit."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.heads import (
    BinaryClassHead,
    LogisticRegressionHead,
    MultiClassHead,
    MultiLabelHead,
)

v1 = tf.compat.v1

PETS = ["cat", "dog", "bird"]


class Wrong(NamedTuple):
    head: Any
    labels: Any
    message: str
    logits: Any = np.zeros([2, 1])
    features: dict | None = None
    error: type = ValueError


WRONG_INPUTS = {
    "no labels": Wrong(BinaryClassHead(), None, "You must provide a labels Tensor"),
    "sparse labels": Wrong(BinaryClassHead(), ([[0, 0]], [1], [2, 1]), "SparseTensor labels are not supported"),
    "one-hot labels": Wrong(
        BinaryClassHead(), [[1, 0], [0, 1]], r"Mismatched label shape.* dimension=1.*Received \(2, 2\)"
    ),
    "more labels": Wrong(BinaryClassHead(), [1, 0, 1], r"Received \(3, 1\) for logits of shape \(2, 1\)"),
    "float classes": Wrong(
        MultiClassHead(3), [1.0, 2.0], "Labels dtype should be integer.*float32", np.zeros([2, 3], "float32")
    ),
    "ints for a vocabulary": Wrong(
        MultiClassHead(3, label_vocabulary=PETS), [1, 2], "should be string", np.zeros([2, 3], "float32")
    ),
    "other logits": Wrong(MultiClassHead(3), [1, 2], r"logits_dimension\], got \(2, 4\)", np.zeros([2, 4], "float32")),
    "flat logits": Wrong(
        MultiClassHead(3), [1, 2], r"at least 2. Received rank 1, shape \(3,\)", np.zeros([3], "float32")
    ),
    "no weights": Wrong(BinaryClassHead("weight"), [1, 0], "Feature weight is not in features dictionary"),
    "string weights": Wrong(
        BinaryClassHead("weight"), [1, 0], "castable to float.*string", features={"weight": ["a", "b"]}
    ),
    "more weights": Wrong(BinaryClassHead("weight"), [1, 0], "weights shape must be", features={"weight": [1, 2, 3]}),
    "another column": Wrong(BinaryClassHead(7), [1, 0], "either a string or NumericColumn.*int", error=TypeError),
    "a reduced loss": Wrong(
        BinaryClassHead(loss_fn=lambda labels, logits: tf.reduce_mean(logits)), [1, 0], "loss_fn must return Tensor"
    ),
}


@pytest.mark.parametrize("wrong", WRONG_INPUTS.values(), ids=WRONG_INPUTS)
def test_inputs_that_do_not_fit_are_refused(wrong, graph):
    labels = tf.SparseTensor(*wrong.labels) if isinstance(wrong.labels, tuple) else wrong.labels
    features = {key: tf.constant(value) for key, value in (wrong.features or {}).items()}
    with pytest.raises(wrong.error, match=wrong.message):
        wrong.head.loss(labels, tf.zeros(wrong.logits.shape), features)


@pytest.mark.parametrize(
    ("head", "labels", "message"),
    [
        (BinaryClassHead(), [[0], [2]], "Labels must be <= n_classes - 1"),
        (LogisticRegressionHead(), [[0.5], [-0.5]], r"Labels must be in range \[0, 1\]"),
        (MultiClassHead(3), [[-1], [1]], "Labels must be >= 0"),
        (MultiClassHead(3), [[3], [1]], "Labels must be <= n_classes - 1"),
        (MultiClassHead(3, label_vocabulary=PETS), [["cow"], ["cat"]], "Labels must be >= 0"),
        (MultiLabelHead(3), [[0, 1, 2], [0, 0, 0]], r"integer indicator Tensor with values in \[0, 1\]"),
    ],
)
def test_labels_out_of_range_fail_the_run(head, labels, message, run):
    loss = head.loss(tf.constant(labels), tf.zeros([2, head.logits_dimension]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(loss)


@pytest.mark.parametrize(("labels", "vocabulary"), [([0, 3], None), (["cat", "cow"], PETS)])
def test_sparse_labels_out_of_range_fail_the_run(labels, vocabulary, run):
    sparse = tf.SparseTensor([[0, 0], [1, 0]], labels, [2, 1])
    loss = MultiLabelHead(3, label_vocabulary=vocabulary).loss(sparse, tf.zeros([2, 3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"integer SparseTensor with values in \[0, 3\)"):
        run(loss)


@pytest.mark.parametrize(
    ("labels", "weights", "message"),
    [([1, 0, 1], [1.0, 1.0], "Mismatched label shape"), ([1, 0], [1.0, 1.0, 1.0], "weights shape must be")],
)
def test_shapes_known_only_at_run_time_are_checked_then(labels, weights, message, run):
    def fed(value, shape):
        return v1.placeholder_with_default(tf.constant(value), shape)

    logits = fed([[1.0], [2.0]], [None, 1])
    loss = BinaryClassHead("weight").loss(fed(labels, [None]), logits, {"weight": fed(weights, [None])})
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(loss)


def test_logits_of_an_unknown_dimension_are_checked_at_run_time(run):
    logits = v1.placeholder_with_default(tf.ones([2, 2]), [None, None])
    with pytest.raises(tf.errors.InvalidArgumentError, match="logits shape must be .*logits_dimension"):
        run(BinaryClassHead().predictions(logits, ["logits"]))


def test_thresholds_and_keys_may_come_from_iterators_and_arrays():
    of_list = BinaryClassHead(thresholds=[0.25, 0.75])
    for thresholds in (iter([0.25, 0.75]), np.array([0.25, 0.75])):
        assert BinaryClassHead(thresholds=thresholds).metrics().keys() == of_list.metrics().keys()
    assert list(of_list.predictions(tf.zeros([1, 1]), iter(["logits"]))) == ["logits"]


def test_arguments_of_a_loss_fn_may_be_bound():
    loss_fn = functools.partial(lambda labels, logits, scale: scale * tf.ones_like(logits), scale=3.0)
    assert BinaryClassHead(loss_fn=loss_fn).loss([1, 0], tf.zeros([2, 1])) == 3
