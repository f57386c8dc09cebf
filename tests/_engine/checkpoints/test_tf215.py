"""Training continues from checkpoints of TensorFlow 2.15's tf.estimator as it would there."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import Fetched

import estimator_train as et

v1 = tf.compat.v1
FOLDER = Path(__file__).parents[2] / "data" / "tf215"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@pytest.fixture
def model_dir(tmp_path):
    """Gives a copy of a kind's folder."""
    return lambda kind: shutil.copytree(FOLDER / kind, tmp_path / kind)


def input_fn(features=lambda x: x):
    x, y = np.array(EXPECTED["features"], "float32"), np.array(EXPECTED["labels"])
    return lambda: tf.data.Dataset.from_tensor_slices((features(x), y)).batch(EXPECTED["batch"])


def model_fn(features, labels, mode):
    """As in make_tf215_checkpoints.py, except for the initial values."""
    hidden = v1.layers.dense(features["x"], 8, tf.nn.tanh, name="hidden")
    logits = v1.layers.dense(hidden, 3, name="logits")
    classes = tf.argmax(logits, axis=1)
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, predictions={"probabilities": tf.nn.softmax(logits), "classes": classes})
    loss = tf.identity(v1.losses.sparse_softmax_cross_entropy(labels, logits), name="loss")
    train_op = v1.train.AdamOptimizer(0.05).minimize(loss, global_step=v1.train.get_global_step())
    metrics = {"accuracy": v1.metrics.accuracy(labels, classes)}
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def keras_model(optimizer):
    model = keras.Sequential(
        [
            keras.layers.Dense(8, activation="tanh", input_shape=(4,), name="hidden"),
            keras.layers.BatchNormalization(momentum=0.8, name="norm"),
            keras.layers.Dense(3, activation="softmax", name="classes"),
        ]
    )
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def check_goes_on(estimator, kind, input_fn):
    expected = EXPECTED[kind]
    assert estimator.evaluate(input_fn) == pytest.approx(expected["metrics"], abs=1e-5)
    predictions = list(estimator.predict(input_fn))
    for ours, theirs in zip(predictions, expected["predictions"], strict=True):
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            np.testing.assert_allclose(ours[key], value, atol=1e-5)
    losses = Fetched()
    estimator.train(input_fn, hooks=[losses], steps=3)
    assert losses.values == pytest.approx(expected["next_losses"], abs=1e-5)
    assert estimator.evaluate(input_fn) == pytest.approx(expected["metrics_after"], abs=1e-5)


@pytest.mark.slow
def test_a_model_fn_resumes_its_checkpoint(model_dir):
    check_goes_on(et.Estimator(model_fn, model_dir("model_fn")), "model_fn", input_fn(lambda x: {"x": x}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "optimizers"),
    [
        pytest.param("keras_checkpoint", keras.optimizers.legacy, id="checkpoint, legacy"),
        pytest.param("keras_saver", keras.optimizers, id="saver, new"),
    ],
)
def test_a_keras_model_resumes_its_checkpoint_in_both_formats(kind, optimizers, model_dir):
    estimator = et.model_to_estimator(keras_model(optimizers.Adam(0.05)), model_dir=model_dir(kind))
    check_goes_on(estimator, kind, input_fn())
    assert estimator.latest_checkpoint().endswith("model.ckpt-6")


@pytest.mark.slow
def test_a_keras_model_resumes_its_checkpoint_on_replicas(model_dir, mirrored):
    config = et.RunConfig(model_dir("keras_saver"), train_distribute=mirrored(2), eval_distribute=mirrored(2))
    estimator = et.model_to_estimator(keras_model(keras.optimizers.Adam(0.05)), config=config)
    metrics = estimator.evaluate(input_fn())
    assert metrics["accuracy"] == pytest.approx(EXPECTED["keras_saver"]["metrics"]["accuracy"])
    assert estimator.train(input_fn()).get_variable_value("global_step") == 5


@pytest.mark.parametrize("kind", ["keras_checkpoint", "keras_saver"])
def test_a_checkpoint_of_another_keras_model_is_refused(kind, model_dir):
    model = keras.Sequential([keras.layers.Dense(5, input_shape=(4,), name="hidden")])
    model.compile("sgd", "mse")
    with pytest.raises(
        ValueError, match=r"hidden.*bias is \[8\] in the checkpoint and \(5,\) in the model|is of another"
    ):
        et.model_to_estimator(model, model_dir=model_dir(kind)).evaluate(input_fn())


def test_an_unbuilt_model_is_refused_with_advice_to_build_it(model_dir):
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="build the model"):
        et.model_to_estimator(model, model_dir=model_dir("keras_saver")).evaluate(input_fn())


@pytest.mark.slow
def test_the_canned_classifier_resumes_its_checkpoint(model_dir):
    columns = [tf.feature_column.numeric_column("x", shape=(4,))]
    estimator = et.DNNClassifier([8], columns, model_dir("dnn_classifier"), n_classes=3)
    data = input_fn(lambda x: {"x": x})
    expected = EXPECTED["dnn_classifier"]
    assert estimator.evaluate(data) == pytest.approx(expected["metrics"], abs=1e-5)
    estimator.train(data, steps=3)
    assert estimator.evaluate(data) == pytest.approx(expected["metrics_after"], abs=1e-5)
