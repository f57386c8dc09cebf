"""Heads of TensorFlow 1 give the numbers of TensorFlow 2.15.1 for the same calls."""

import pytest
import tensorflow as tf

import estimator_train as et
from estimator_train.compat.drop_in.tpu import TPUEstimatorSpec

v1 = tf.compat.v1


def count_step(loss):
    return v1.train.get_global_step().assign_add(1)


def weights():
    return {"w": tf.constant([[1.0], [2.0], [3.0], [4.0]])}


def test_binary_head_gives_the_numbers_of_tensorflow_2_15(run):
    from tensorflow_estimator.python.estimator.canned import head as head_lib

    def spec(mode, **training):
        head = head_lib._binary_logistic_head_with_sigmoid_cross_entropy_loss(thresholds=[0.3, 0.5], name="hh")
        logits, labels = tf.constant([[-2.0], [0.3], [1.5], [-0.1]]), tf.constant([[1], [0], [1], [0]])
        return head.create_estimator_spec(
            {}, mode, logits, labels, regularization_losses=[tf.constant(0.5)], **training
        )

    metrics = run(lambda: spec("eval"))
    of_215 = {
        "loss": 4.3270936, "average_loss/hh": 0.9567734, "accuracy/hh": 0.5, "precision/hh": 0.5, "recall/hh": 0.5,
        "prediction/mean/hh": 0.4965602, "label/mean/hh": 0.5, "accuracy_baseline/hh": 0.5, "auc/hh": 0.5,
        "auc_precision_recall/hh": 0.7083330, "regularization_loss/hh": 0.5, "accuracy/positive_threshold_0.3/hh": 0.25,
        "precision/positive_threshold_0.3/hh": 1 / 3, "recall/positive_threshold_0.3/hh": 0.5,
    }  # fmt: skip
    assert {name: metrics[name] for name in of_215} == pytest.approx(of_215, rel=1e-5)
    trained = run(lambda: spec("train", train_op_fn=count_step))
    summaries = {name: value for name, value in trained.items() if name.startswith("summary")}
    assert summaries == pytest.approx(
        {
            "summary of loss/hh": 4.3270936,
            "summary of average_loss/hh": 0.9567734,
            "summary of regularization_loss/hh": 0.5,
        },
        rel=1e-5,
    )
    with tf.Graph().as_default():
        assert sorted(spec("infer").export_outputs) == ["classification", "predict", "regression", "serving_default"]


def test_multi_class_head_gives_the_numbers_of_tensorflow_2_15(run):
    from tensorflow_estimator.python.estimator.canned import head as head_lib

    def spec(mode):
        head = head_lib._binary_logistic_or_multi_class_head(3, "w", ["a", "b", "c"], "weighted_sum")
        logits = tf.constant([[1.0, 2.0, 0.5], [0.0, 0.0, 1.0], [3.0, 1.0, 2.0], [0.1, 0.2, 0.3]])
        return head.create_estimator_spec(weights(), mode, logits, tf.constant([["a"], ["b"], ["a"], ["c"]]))

    metrics = run(lambda: spec("eval"))
    assert (metrics["loss"], metrics["average_loss"], metrics["accuracy"]) == pytest.approx(
        (9.7978477, 0.9797848, 0.7), rel=1e-5
    )


def test_the_regression_head_gives_the_numbers_of_tensorflow_2_15(run):
    from tensorflow_estimator.python.estimator.canned import head as head_lib

    def inputs():
        logits = tf.constant([[1.0, 2.0], [0.0, 0.0], [3.0, 1.0], [0.1, 0.2]])
        return logits, tf.constant([[1.0, 1.0], [2.0, 2.0], [0.0, 1.0], [1.0, 0.0]])

    metrics = run(lambda: head_lib._regression_head("w", 2).create_estimator_spec(weights(), "eval", *inputs()))
    of_215 = {"loss": 47.4, "average_loss": 2.37, "prediction/mean": 0.81, "label/mean": 0.85}
    assert {name: metrics[name] for name in of_215} == pytest.approx(of_215, rel=1e-5)
    with tf.Graph().as_default(), v1.Session() as session:
        loss = head_lib._regression_head("w", 2).create_loss(weights(), "train", *inputs())
        assert isinstance(loss, head_lib.LossSpec)
        values = session.run(loss._asdict())
    assert values["training_loss"] == pytest.approx(47.4)
    assert values["unreduced_loss"].tolist()[1:3] == [[4, 4], [9, 0]] and values["weights"].ravel().tolist() == [
        1,
        2,
        3,
        4,
    ]
    assert values["processed_labels"].shape == (4, 2)


def test_a_head_derived_from_the_base_works_as_in_deepctr(run):
    from tensorflow.python.estimator.canned.head import _Head
    from tensorflow.python.estimator.canned.optimizers import get_optimizer_instance

    class Head(_Head):
        name = "own"
        logits_dimension = 1

        def create_loss(self, features, mode, logits, labels):
            return v1.losses.mean_squared_error(labels, logits)

        def create_estimator_spec(self, features, mode, logits, labels=None, train_op_fn=None):
            loss = self.create_loss(features, mode, logits, labels)
            return et.EstimatorSpec(mode, predictions={"logits": logits}, loss=loss, train_op=train_op_fn(loss))

    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("weight", initializer=1.0)
        minimize = get_optimizer_instance("Ftrl", 0.5).minimize
        spec = Head().create_estimator_spec({}, "train", weight * tf.ones([2, 1]), tf.zeros([2, 1]), minimize)
        session.run(v1.global_variables_initializer())
        session.run(spec.train_op)
        assert 0 < session.run(weight) < 1


def test_a_head_may_replace_the_spec_alone_as_in_tensorflow_privacy(run):
    from tensorflow_estimator.python.estimator import model_fn
    from tensorflow_estimator.python.estimator.canned import head as head_lib

    class Head(head_lib._BinaryLogisticHeadWithSigmoidCrossEntropyLoss):
        def _create_tpu_estimator_spec(
            self, features, mode, logits, labels=None, optimizer=None, train_op_fn=None, regularization_losses=None
        ):
            logits = head_lib._check_logits_final_dim(logits, self.logits_dimension)
            logistic = tf.sigmoid(logits)
            loss, losses, weights, labels = self.create_loss(features, mode, logits, labels)
            measured = head_lib._create_eval_metrics_tuple(
                self._eval_metric_ops,
                {"labels": labels, "logits": logits, "logistic": logistic, "class_ids": tf.cast(logits > 0, tf.int64),
                 "weights": weights, "unreduced_loss": losses, "regularization_loss": None},
            )  # fmt: skip
            return model_fn._TPUEstimatorSpec(mode, {"logistic": logistic}, 2 * loss, eval_metrics=measured)

    assert model_fn._TPUEstimatorSpec is TPUEstimatorSpec
    head = Head(label_vocabulary=["no", "yes"])
    assert (head._label_vocabulary, head._name, head._loss_reduction) == (["no", "yes"], None, "weighted_sum")
    logits, labels = [[2.0], [-1.0]], [["yes"], ["yes"]]
    metrics = run(lambda: head.create_estimator_spec({}, "eval", tf.constant(logits), tf.constant(labels)))
    assert metrics["loss"] == pytest.approx(4 * metrics["average_loss"]) and metrics["accuracy"] == 0.5


def test_a_canned_estimator_of_tensorflow_1_takes_a_head_of_tensorflow_1(tmp_path):
    from tensorflow_estimator.python.estimator.canned.head import _regression_head

    columns = [tf.feature_column.numeric_column("x")]
    estimator = v1.estimator.DNNEstimator(_regression_head(), [2], columns, tmp_path)

    def input_fn():
        return tf.data.Dataset.from_tensors(({"x": [[1.0], [2.0]]}, [[1.0], [3.0]]))

    assert estimator.train(input_fn, steps=1).evaluate(input_fn)["label/mean"] == 2


def test_only_one_of_optimizer_and_train_op_fn_is_taken():
    from tensorflow_estimator.python.estimator.canned.head import _regression_head

    for training, message in (({}, "be None"), ({"optimizer": 1, "train_op_fn": 1}, "be set")):
        with tf.Graph().as_default(), pytest.raises(ValueError, match=f"cannot both {message}"):
            _regression_head().create_estimator_spec({}, "train", tf.ones([2, 1]), tf.ones([2, 1]), **training)


@pytest.fixture
def shapes_of_tensorflow_1():
    v1.disable_v2_tensorshape()
    yield
    v1.enable_v2_tensorshape()


@pytest.mark.parametrize(
    ("of_tensorflow_1", "expected"), [(True, [-1.1389015, -1.2760618]), (False, [0.11093929, -0.37419727])]
)
@pytest.mark.usefixtures("shapes_of_tensorflow_1")
def test_logits_of_each_example_for_each_example_are_trained(of_tensorflow_1, expected):
    """The first weights are those of TensorFlow 1.15.5, too; 2.15.1 gives both without TensorFlow 2's behavior."""
    from tensorflow_estimator.python.estimator.canned import head as head_lib

    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.create_global_step()
        x = v1.placeholder_with_default([[1.0, 2.0], [0.0, 1.0], [2.0, 1.0], [1.0, 1.0]], [None, 2])
        weights = v1.get_variable("w", initializer=[[0.3], [-0.2]])
        logits = tf.matmul(x, weights) + tf.reduce_sum(x, -1)  # (N, 1) and (N,) add up to (N, N)
        head = et.BinaryClassHead()
        if of_tensorflow_1:
            head = head_lib._binary_logistic_head_with_sigmoid_cross_entropy_loss()
        labels = v1.placeholder_with_default([0, 1, 0, 1], [None])
        train_op_fn = v1.train.GradientDescentOptimizer(0.1).minimize
        spec = head.create_estimator_spec({}, "train", logits, labels, train_op_fn=train_op_fn)
        session.run(v1.global_variables_initializer())
        for _ in range(3):
            session.run(spec.train_op)
        assert session.run(weights)[:, 0] == pytest.approx(expected, rel=1e-6)
