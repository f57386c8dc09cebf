"""SequentialHeadWrapper. The numbers are those of TensorFlow 2.15.1's own, of the same calls."""

import numpy as np
import pytest
import tensorflow as tf

import estimator_train as et


@pytest.fixture
def wrapper():
    from tensorflow_estimator.python.estimator.head.sequential_head import SequentialHeadWrapper

    return SequentialHeadWrapper


def spec(head, mode, sparse=False, mask_dtype=tf.int32, **training):
    features = {
        "sequence_length_mask": tf.constant([[1, 1, 0], [1, 0, 0]]),
        "w": tf.constant([[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]]),
    }
    features["sequence_length_mask"] = tf.cast(features["sequence_length_mask"], mask_dtype)
    logits = tf.constant([[[1.0], [2.0], [3.0]], [[-1.0], [5.0], [6.0]]])
    labels = tf.constant([[1, 0, 0], [1, 0, 0]])
    if sparse:
        labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 0, 1]), [2, 3])
    return head.create_estimator_spec(features, mode, logits, labels, **training)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"mask_dtype": tf.bool}])
def test_steps_after_the_end_of_a_sequence_count_in_no_loss_or_metric(wrapper, run, options):
    head = wrapper(et.BinaryClassHead(weight_column="w"), feature_columns="w")
    metrics = run(lambda: spec(head, "eval", **options))
    of_215 = {
        "loss": 2.8356342, "average_loss": 1.4178171, "accuracy": 1 / 6, "precision": 1 / 3, "recall": 0.25,
        "prediction/mean": 0.5499129, "label/mean": 2 / 3, "accuracy_baseline": 2 / 3, "auc": 0,
        "auc_precision_recall": 0.4506938,
    }  # fmt: skip
    assert {name: metrics[name] for name in of_215} == pytest.approx(of_215, rel=1e-5)
    assert metrics["logits"].ravel().tolist() == [1, 2, -1]


def test_the_loss_covers_unmasked_steps_and_predictions_include_the_mask(wrapper, run):
    head = wrapper(et.BinaryClassHead())
    trained = run(
        lambda: spec(head, "train", train_op_fn=lambda loss: tf.compat.v1.train.get_global_step().assign_add(1))
    )
    assert trained["loss"] == trained["summary of loss"] == pytest.approx(1.2511505)
    predictions = run(lambda: spec(head, "infer"))
    assert predictions["logits"].shape == (2, 3, 1) and np.array_equal(
        predictions["sequence_length_mask"], [[1, 1, 0], [1, 0, 0]]
    )
    assert (head.name, head.logits_dimension, head.loss_reduction) == (None, 1, "sum_over_batch_size")
    assert head.input_sequence_mask_key == "sequence_length_mask" and isinstance(head.static_head, et.BinaryClassHead)


def test_what_cannot_be_wrapped_is_refused(wrapper):
    with pytest.raises(ValueError, match="MultiHead is not supported"):
        wrapper(et.MultiHead([et.BinaryClassHead(name="a")]))
    with pytest.raises(TypeError, match="must be a string, given: 3"):
        wrapper(et.BinaryClassHead(), sequence_length_mask=3)
    for columns in (3, [3]):
        with pytest.raises(TypeError, match="feature_columns must be either a string or an iterable of strings"):
            wrapper(et.BinaryClassHead(), feature_columns=columns)
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"sequence_length_mask.*Found keys: \['x'\]"):
        wrapper(et.BinaryClassHead()).create_estimator_spec({"x": 1}, "eval", tf.ones([1, 1, 1]))
