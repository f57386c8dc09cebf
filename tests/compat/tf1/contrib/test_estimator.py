"""tf.contrib.estimator: heads, clipped gradients and forwarded features.

TensorFlow 1.15.5 (Python 3.7, tensorflow==1.15.5 with protobuf<3.21) ran these tests once with
`estimator, predictor = tf.contrib.estimator, tf.contrib.predictor`. All hold there, but its multi_head does not run
UPDATE_OPS, its predictor takes input_names beside a signature_def_key, and the messages are other ones.
"""

import numpy as np
import pytest
import tensorflow as tf

from estimator_train.compat.tf1.contrib import estimator, predictor

v1 = tf.compat.v1


def model_fn(features, labels, mode, params):
    """Logits of one dense layer, by the head in params."""
    with v1.variable_scope("net", initializer=v1.constant_initializer(0.5)):
        head = params["head"]
        weights = v1.get_variable("weights", [2, head.logits_dimension])
        logits = tf.matmul(features["x"], weights)
    optimizer = estimator.clip_gradients_by_norm(v1.train.GradientDescentOptimizer(1.0), 0.1)
    return head.create_estimator_spec(features, mode, logits, labels, optimizer=optimizer)


def test_a_multi_label_head_measures_areas_as_tensorflow_1_did():
    random = np.random.RandomState(0)
    labels, logits = tf.constant(random.randint(2, size=[40, 3])), tf.constant(random.randn(40, 3), tf.float32)
    spec = estimator.multi_label_head(3).create_estimator_spec({}, "eval", logits, labels)
    pairs = [spec.eval_metric_ops["auc_precision_recall"], v1.metrics.auc(labels, tf.sigmoid(logits), curve="PR")]
    values, updates = zip(*pairs, strict=True)
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        session.run(updates)
        area, expected = session.run(values)
    assert area == pytest.approx(expected, rel=1e-6)


def input_fn():
    features = {"x": [[1.0, 2.0], [3.0, 1.0]], "key": [["a"], ["b"]]}
    return v1.data.Dataset.from_tensors((features, [[1], [0]]))


@pytest.mark.slow
def test_heads_train_with_clipped_gradients_and_forward_features(tmp_path):
    head = estimator.binary_classification_head()
    made = v1.estimator.Estimator(model_fn, str(tmp_path), params={"head": head})
    made.train(input_fn, steps=1)
    moved = made.get_variable_value("net/weights") - 0.5
    assert np.linalg.norm(moved) == pytest.approx(0.1, rel=1e-4)
    assert {"accuracy", "auc", "average_loss", "loss"} <= made.evaluate(input_fn).keys()
    rows = list(estimator.forward_features(made, "key").predict(input_fn))
    assert [row["key"].tolist() for row in rows] == [[b"a"], [b"b"]] and "logistic" in rows[0]
    with pytest.raises(ValueError, match=r"keys=\['no'\]: the features \['key', 'x'\] do not include \['no'\]"):
        next(estimator.forward_features(made, ["no"]).predict(input_fn))

    def receiver_fn():
        x = v1.placeholder(tf.float32, [None, 2])
        return v1.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

    predict = predictor.from_estimator(made, receiver_fn, output_key="predict")
    assert predict({"x": [[1.0, 2.0]]})["logistic"] == pytest.approx(rows[0]["logistic"][None])
    with pytest.raises(ValueError, match="Got unexpected keys in input_dict: {'y'}"):
        predict({"y": 1})
    path = made.export_savedmodel(str(tmp_path / "export"), receiver_fn)
    with pytest.raises(ValueError, match="No SignatureDef with key 'no'; there are"):
        predictor.from_saved_model(path, "no")
    with pytest.raises(ValueError, match="give one of signature_def_key"):
        predictor.from_saved_model(path, "predict", input_names={"x": "x:0"})


@pytest.mark.parametrize(
    "head",
    [
        lambda: estimator.multi_class_head(3, loss_reduction=v1.losses.Reduction.SUM),
        lambda: estimator.regression_head(),
        lambda: estimator.poisson_regression_head(),
        lambda: estimator.logistic_regression_head(),
        lambda: estimator.multi_label_head(2),
        lambda: estimator.multi_head([estimator.regression_head(name="a"), estimator.multi_class_head(3, name="b")]),
    ],
)
def test_heads_give_a_loss_and_run_update_ops(head, run):
    """Else batch normalization would predict with the statistics that it starts with."""
    head = head()
    moving = v1.get_variable("moving", initializer=0.0, use_resource=True)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, moving.assign_add(1.0))
    labels = tf.constant([[1]] * 2)
    labels = tf.constant([[1, 0]] * 2) if head.logits_dimension == 2 else labels
    logits = tf.fill([2, head.logits_dimension], 2.0)
    if head.logits_dimension == 4:
        labels = {"a": tf.constant([[1.0]] * 2), "b": labels}
    else:
        assert run(head.create_loss({}, "train", logits, labels).training_loss) > 0
    spec = head.create_estimator_spec({}, "train", logits, labels, train_op_fn=tf.identity)
    with tf.control_dependencies([spec.train_op]):
        moved = moving.read_value()
    loss, moved = run([spec.loss, moved])
    assert loss > 0 and moved == 1
