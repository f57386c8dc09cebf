"""The functions for building custom heads."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et

v1 = tf.compat.v1


@pytest.fixture
def base_head():
    from tensorflow_estimator.python.estimator.head import base_head

    return base_head


def value(make):
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(make())


def test_serving_keys(base_head):
    keys = base_head.DEFAULT_SERVING_KEY, base_head.CLASSIFY_SERVING_KEY, base_head.REGRESS_SERVING_KEY
    assert (*keys, base_head.PREDICT_SERVING_KEY) == ("serving_default", "classification", "regression", "predict")


def test_classes_of_a_batch(base_head):
    logits = np.zeros([2, 3], np.float32)
    assert value(lambda: base_head.all_class_ids(logits, 3)).tolist() == [[0, 1, 2]] * 2
    assert value(lambda: base_head.all_classes(logits, 3)).tolist() == [[b"0", b"1", b"2"]] * 2
    with tf.Graph().as_default():
        output = base_head.classification_output(tf.constant(logits), 3, ["a", "b", "c"])
        assert v1.Session().run(output.classes).tolist() == [[b"a", b"b", b"c"]] * 2


def test_labels_logits_and_losses_are_checked_and_shaped(base_head):
    logits = np.ones([2, 1], np.float32)
    labels = value(lambda: base_head.check_dense_labels_match_logits_and_reshape(tf.ones([2]), tf.constant(logits), 1))
    assert labels.shape == (2, 1)
    assert value(lambda: base_head.check_logits_final_dim(tf.constant(logits), 1)).dtype == np.float32
    with pytest.raises(ValueError, match="logits shape must be"):
        value(lambda: base_head.check_logits_final_dim(tf.constant(logits), 2))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Labels must be in range \[0, 2\]"):
        value(lambda: base_head.check_label_range(tf.constant([[3]]), 3))

    def loss_fn(labels, logits, features):
        return features["scale"] * (labels - logits)

    losses = value(lambda: base_head.call_loss_fn(loss_fn, 3 * tf.ones([2, 1]), tf.constant(logits), {"scale": 2.0}))
    assert losses.tolist() == [[4], [4]]
    with pytest.raises(ValueError, match="loss_fn must contain argument: logits"):
        base_head.validate_loss_fn_args(lambda labels: labels)


def test_weights_match_the_logits(base_head):
    logits = np.zeros([2, 3], np.float32)
    assert base_head.get_weights_and_check_match_logits({}, None, tf.constant(logits)) == 1.0
    features = {"w": np.array([1, 2]), "each": np.ones([2, 3], np.float32)}
    weights = value(lambda: base_head.get_weights_and_check_match_logits(features, "w", tf.constant(logits)))
    assert weights.tolist() == [[1], [2]]
    each = value(lambda: base_head.get_weights_and_check_match_logits(features, "each", tf.constant(logits), True))
    assert each.shape == (2, 3)
    with pytest.raises(ValueError, match="weights shape must be"):
        value(lambda: base_head.get_weights_and_check_match_logits(features, "each", tf.constant(logits)))


def test_train_op_and_summaries_of_a_spec(base_head):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.create_global_step()
        weight = v1.get_variable("weight", initializer=1.0, use_resource=True)
        optimizer = keras.optimizers.legacy.SGD(0.25)
        step = base_head.create_estimator_spec_train_op(
            "head", optimizer, [weight], update_ops=[], regularized_training_loss=weight**2
        )
        base_head.create_estimator_spec_summary(weight**2, [tf.constant(0.5)], lambda key: f"{key}/name")
        session.run(v1.global_variables_initializer())
        session.run(step)
        assert session.run([weight, v1.train.get_global_step()]) == [0.5, 1]
        summary = v1.Summary.FromString(session.run(v1.summary.merge_all()))
    assert {value.tag: value.simple_value for value in summary.value} == {
        "loss/name": 0.25,
        "regularization_loss/name": 0.5,
    }
    with pytest.raises(ValueError, match="train_op_fn and optimizer cannot both be None"):
        base_head.create_estimator_spec_train_op("head")


def test_the_tensors_of_eval_metrics_stand_apart(base_head):
    def metric_fn(values, scale, offset):
        return {"sum": values * scale + offset}

    function, tensors = base_head.create_eval_metrics_tuple(
        metric_fn, {"values": tf.constant(2.0), "scale": 3, "offset": 4}
    )
    assert list(tensors) == ["values"] and function(**tensors)["sum"].numpy() == 10


def test_weights_of_a_metric_are_broadcast(base_head):
    metric = keras.metrics.Mean()
    base_head.update_metric_with_broadcast_weights(metric, tf.constant([[1, 3], [5, 7]]), tf.constant([[1.0], [0.0]]))
    assert metric.result().numpy() == 2


def test_arguments_are_validated(base_head):
    assert base_head.validate_n_classes(3) == 3
    base_head.validate_loss_reduction("sum")
    base_head.validate_update_ops(None)
    base_head.validate_trainable_variables([])
    base_head.validate_v2_optimizer(keras.optimizers.legacy.SGD())
    base_head.check_prediction_keys(["a"], ["a", "b"])
    for check, message in [
        (lambda: base_head.validate_n_classes(2), "n_classes must be > 2: 2"),
        (lambda: base_head.validate_loss_reduction("none"), "Invalid loss_reduction"),
        (lambda: base_head.validate_update_ops(3), "update_ops should be a list or a tuple"),
        (lambda: base_head.validate_trainable_variables(None), "trainable_variables cannot be None"),
        (lambda: base_head.validate_trainable_variables(3), "trainable_variables should be a list or a tuple"),
        (lambda: base_head.validate_v2_optimizer(3), "not a tf.keras.optimizers.Optimizer instance"),
        (lambda: base_head.check_prediction_keys(["c"], ["a"]), "Prediction key must be in PredictionKeys, given: c"),
    ]:
        with pytest.raises(ValueError, match=message):
            check()


def test_head_utils_makes_the_head_of_a_classifier():
    from tensorflow_estimator.python.estimator.head import head_utils

    assert isinstance(head_utils.binary_or_multi_class_head(2, None, None, "sum"), et.BinaryClassHead)
    assert isinstance(head_utils.binary_or_multi_class_head(3, None, None, "sum"), et.MultiClassHead)


def test_a_keras_head_may_replace_the_spec_alone_as_in_tensorflow_privacy(base_head, run):
    from tensorflow_estimator.python.estimator import model_fn
    from tensorflow_estimator.python.estimator.head import binary_class_head

    class Head(binary_class_head.BinaryClassHead):
        def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
            logits = base_head.check_logits_final_dim(logits, self.logits_dimension)
            losses, weights = self._unweighted_loss_and_weights(
                logits, self._processed_labels(logits, labels), features
            )
            return losses * weights  # of each example

        def _create_tpu_estimator_spec(self, features, mode, logits, labels=None, optimizer=None, **others):
            loss = tf.reduce_mean(self.loss(labels, logits, features))
            arguments = {"eval_metrics": self.metrics(), "features": features, "logits": logits, "labels": labels}
            measured = base_head.create_eval_metrics_tuple(self.update_metrics, arguments)
            return model_fn._TPUEstimatorSpec(mode, self.predictions(logits), loss, eval_metrics=measured)

    head = Head(weight_column="w", label_vocabulary=["no", "yes"])
    assert head._label_vocabulary == ["no", "yes"] and et.MultiClassHead(4)._n_classes == 4

    def make():
        features = {"w": tf.constant([1.0, 3.0])}
        return head.create_estimator_spec(
            features, "eval", tf.constant([[2.0], [-1.0]]), tf.constant([["yes"], ["no"]])
        )

    metrics = run(make)
    losses = np.log1p(np.exp([-2.0, -1.0]))
    assert metrics["loss"] == pytest.approx(np.mean(losses * [1, 3]))
    assert metrics["average_loss"] == pytest.approx(np.sum(losses * [1, 3]) / 4) and metrics["accuracy"] == 1
