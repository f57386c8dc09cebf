"""Names and behaviour that programs for tf.estimator rely on, against those of TensorFlow 2.15.1.

The constants were printed by TensorFlow 2.15.1 with tensorflow-estimator 2.15.0, for the same code.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et

v1 = tf.compat.v1
COLUMNS = [tf.feature_column.numeric_column("x")]


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": [[1.0], [2.0]]}, [[1.0], [0.0]])).repeat(4)


@pytest.mark.slow
def test_paths_are_those_that_were_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given in ("runs/a", "runs/b/", "runs/../c", "~/d", Path("runs/e"), "file:///tmp/f"):
        estimator = tf.estimator.LinearRegressor(COLUMNS, model_dir=given)
        assert estimator.model_dir == str(given) == estimator.config.model_dir
    estimator = tf.estimator.LinearRegressor(COLUMNS, config=tf.estimator.RunConfig("runs/a"))
    assert (estimator.eval_dir(), estimator.eval_dir("b")) == ("runs/a/eval", "runs/a/eval_b")
    estimator.train(input_fn, steps=1)
    assert estimator.latest_checkpoint() == "runs/a/model.ckpt-1"
    receiver_fn = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.ones([1, 1])})
    assert estimator.export_saved_model("exports", receiver_fn).startswith(b"exports/")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")  # here TensorFlow 2.15 loses its checkpoints
    assert estimator.model_dir == str(tmp_path / "runs/a") and estimator.eval_dir() == f"{estimator.model_dir}/eval"
    assert estimator.train(input_fn, steps=1).evaluate(input_fn)["global_step"] == 2


def test_a_variable_is_found_by_its_tensors_name(tmp_path):
    estimator = tf.estimator.LinearRegressor(COLUMNS, model_dir=str(tmp_path))
    estimator.train(input_fn, steps=1)
    weights = "linear/linear_model/x/weights"
    assert estimator.get_variable_value(f"{weights}:0") == estimator.get_variable_value(weights)
    assert estimator.get_variable_value("global_step:0") == 1
    with pytest.raises(tf.errors.NotFoundError, match="Key nope not found in checkpoint"):
        estimator.get_variable_value("nope:0")


@pytest.mark.slow
def test_a_given_optimizer_counts_in_the_global_step(tmp_path):
    optimizer = keras.optimizers.legacy.Adam(0.1)
    estimator = tf.estimator.DNNRegressor([2], COLUMNS, model_dir=str(tmp_path), optimizer=optimizer)
    estimator.train(input_fn, steps=2)
    assert optimizer.iterations.name == "global_step:0"
    estimator.train(input_fn, steps=1)  # here TensorFlow 2.15 raises RuntimeError
    assert optimizer.iterations.name == "global_step:0" and estimator.get_variable_value("global_step") == 3


@pytest.mark.parametrize(("scope", "prefix"), [("", "dnn/"), ("foo", "foo/dnn/foo/")])
def test_the_variables_of_the_dnn_logit_fn_builder_v2(scope, prefix):
    from tensorflow_estimator.python.estimator.canned import dnn

    logit_fn = dnn.dnn_logit_fn_builder_v2(1, [2, 3], COLUMNS, tf.nn.relu, None, False)
    with tf.Graph().as_default():
        with v1.variable_scope(scope):
            logit_fn({"x": tf.ones([2, 1])}, mode="train")
        names = [variable.name for variable in v1.trainable_variables()]
    layers = ("hiddenlayer_0", "hiddenlayer_1", "logits")
    assert names == [f"{prefix}{layer}/{part}:0" for layer in layers for part in ("kernel", "bias")]


def test_constants_and_classes_of_the_old_modules():
    from tensorflow_estimator.python.estimator import model_fn
    from tensorflow_estimator.python.estimator.export import export, export_lib

    assert (model_fn.LOSS_METRIC_KEY, model_fn.AVERAGE_LOSS_METRIC_KEY) == ("loss", "average_loss")
    receiver_class = export.UnsupervisedInputReceiver
    assert issubclass(receiver_class, tf.estimator.export.ServingInputReceiver)
    assert receiver_class is export_lib.UnsupervisedInputReceiver
    with tf.Graph().as_default():
        tensor = tf.constant(1)
        assert receiver_class(tensor, tensor) == ({"feature": tensor}, {"input": tensor}, None)
        with pytest.raises(ValueError, match="features must be defined"):
            receiver_class(None, tensor)


def test_metrics_are_written_to_an_event_file(tmp_path):
    from tensorflow_estimator.python.estimator import estimator, run_config

    metrics = {"loss": np.float32(0.5), "n": 3, "global_step": 7, "vector": np.array([1.0, 2.0]), "none": None}
    with tf.Graph().as_default():
        estimator._write_dict_to_summary(str(tmp_path), metrics, 7)
        estimator._write_checkpoint_path_to_summary(str(tmp_path), "runs/model.ckpt-7", 7)
    (path,) = tmp_path.iterdir()
    found = {
        value.tag: (event.step, value.WhichOneof("value"), value.simple_value)
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert found == {
        "loss": (7, "simple_value", 0.5),
        "n": (7, "simple_value", 3.0),
        "vector": (7, "tensor", 0.0),
        "checkpoint_path": (7, "tensor", 0.0),
    }
    assert estimator._dict_to_str({"loss": np.float32(0.5), "a": 3, "image": b"x"}) == "a = 3, loss = 0.5"
    assert [run_config.path_to_str(path) for path in (Path("a/b"), None)] == ["a/b", None]


@pytest.mark.parametrize(
    ("cluster", "task", "filters"),
    [
        ({"chief": 1}, "chief", ["/job:ps", "/job:chief"]),
        ({"master": 1, "worker": 1}, "master", ["/job:ps", "/job:master"]),
        ({"chief": 1, "worker": 2}, "worker", ["/job:ps", "/job:worker/task:0"]),
        ({"chief": 1, "worker": 1, "ps": 1}, "ps", ["/job:ps", "/job:worker", "/job:chief", "/job:master"]),
        ({"chief": 1, "worker": 1, "ps": 1}, "evaluator", None),
        ({}, "worker", None),
    ],
)
def test_the_session_config_of_a_task_in_a_cluster(cluster, task, filters, monkeypatch):
    addresses = {job: [f"{job}{index}:1" for index in range(count)] for job, count in cluster.items()}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": addresses, "task": {"type": task, "index": 0}}))
    session_config = tf.estimator.RunConfig().session_config
    if filters is None:
        assert session_config is None
    else:
        assert list(session_config.device_filters) == filters and session_config.allow_soft_placement
        assert session_config.graph_options.rewrite_options.meta_optimizer_iterations == 1
    own = v1.ConfigProto(inter_op_parallelism_threads=1)
    assert tf.estimator.RunConfig(session_config=own).session_config == own


def test_a_model_that_sums_ragged_features(tmp_path):
    def model_fn(features, labels, mode):
        weight = v1.get_variable("weight", [], initializer=v1.ones_initializer())
        predictions = tf.reduce_sum(features["ids"], 1) * weight
        loss = tf.reduce_sum(predictions)
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, {"sum": predictions}, loss, train_op)

    def ragged_input_fn():
        features = {"ids": tf.ragged.constant([[1.0, 2.0], [3.0]])}
        return tf.data.Dataset.from_tensor_slices((features, [1.0, 2.0])).batch(2)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
    estimator.train(lambda: ragged_input_fn().repeat(2))
    assert estimator.evaluate(ragged_input_fn)["loss"] == pytest.approx(-1.2000003)
    assert [row["sum"] for row in estimator.predict(ragged_input_fn)] == pytest.approx([-0.60000014] * 2)

    feature_spec = {"ids": tf.io.RaggedFeature(tf.float32)}
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(feature_spec)
    served = tf.saved_model.load(estimator.export_saved_model(str(tmp_path / "export"), receiver_fn).decode())
    example = tf.train.Example()
    example.features.feature["ids"].float_list.value.extend([1.0, 5.0])
    sums = served.signatures["serving_default"](examples=tf.constant([example.SerializeToString()]))
    assert sums["sum"].numpy() == pytest.approx([-1.2000003])


def test_a_head_of_heads_names_its_sums_like_the_models(run):
    head = tf.estimator.MultiHead([et.RegressionHead(name="a"), et.RegressionHead(name="b")], [1.0, 2.0])

    def make_spec():
        labels = {"a": tf.ones([2, 1]), "b": tf.ones([2, 1])}
        logits, penalties = tf.constant([[1.0, 2.0]] * 2), [tf.constant(1.0)]
        return head.create_estimator_spec(
            {}, "train", logits, labels, train_op_fn=tf.identity, regularization_losses=penalties
        )

    found = {name: value for name, value in run(make_spec).items() if str(name).startswith("summary of ")}
    sums = {"loss/a": 0, "loss/b": 1, "loss": 3, "regularization_loss": 1}
    assert found == {f"summary of {tag}": value for tag, value in sums.items()}
