"""A user's first steps with an installed estimator_train; `.ci/matrix` runs it on every supported TensorFlow.

The suite does not collect it, because it tests each of these steps separately.
"""

import os
import subprocess
import sysconfig

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et

v1 = tf.compat.v1


def keras_model(config):
    model = keras.Sequential(
        [
            keras.layers.Dense(16, activation="relu", input_shape=(4,), name="x"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3, activation="softmax", name="probabilities"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return et.model_to_estimator(model, config=config)


def keras3_model(config):
    import keras as keras3  # as for users: imported together with tf_keras, and after it

    model = keras3.Sequential(
        [
            keras3.Input((4,), name="x_input"),
            keras3.layers.Dense(16, activation="relu"),
            keras3.layers.BatchNormalization(),
            keras3.layers.Dense(3, activation="softmax", name="probabilities"),
        ]
    )
    model.compile(keras3.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return et.model_to_estimator(model, config=config)


def model_fn(features, labels, mode, params):
    net = v1.layers.dense(features["x_input"], 16, activation=tf.nn.relu)
    logits = v1.layers.dense(net, 3)
    probabilities = tf.nn.softmax(logits)
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, predictions={"probabilities": probabilities})
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = v1.train.AdamOptimizer(params["learning_rate"])
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    metrics = {"accuracy": v1.metrics.accuracy(labels, tf.argmax(probabilities, axis=1))}
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def graph_model(config):
    return et.Estimator(model_fn, config=config, params={"learning_rate": 0.01})


def canned_model(config):
    columns = [tf.feature_column.numeric_column("x_input", shape=(4,))]
    return et.DNNClassifier([16], columns, n_classes=3, optimizer=keras.optimizers.Adam(0.01), config=config)


def examples():
    """Returns 96 examples with 4 features, two of which decide the class."""
    x = np.random.default_rng(5).normal(size=(96, 4)).astype("float32")
    return x, (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0.3)


def train_input_fn():
    x, y = examples()
    return tf.data.Dataset.from_tensor_slices(({"x_input": x}, y)).shuffle(96, seed=1).repeat().batch(16)


def eval_input_fn():
    x, y = examples()
    return tf.data.Dataset.from_tensor_slices(({"x_input": x}, y)).batch(40)


def losses_in_events(folder):
    """Returns the losses of training steps in the event files of `folder`, in order."""
    return [
        float(tf.make_ndarray(value.tensor)) if value.HasField("tensor") else value.simple_value
        for path in sorted(tf.io.gfile.glob(os.path.join(folder, "events.out.tfevents.*")))
        for event in v1.train.summary_iterator(path)
        for value in event.summary.value
        if value.tag == "loss"
    ]


@pytest.mark.parametrize(
    ("make_estimator", "replicas"),
    [
        *((keras_model, None), (keras_model, 2), (keras3_model, None), (keras3_model, 2)),
        *((graph_model, None), (graph_model, 2), (canned_model, None)),
    ],
)
def test_train_resume_evaluate_predict_export(make_estimator, replicas, mirrored, tmp_path):
    config = et.RunConfig(
        str(tmp_path / "run"),
        tf_random_seed=3,
        save_checkpoints_steps=10,
        save_summary_steps=5,
        train_distribute=mirrored(replicas),
        eval_distribute=mirrored(replicas),
    )

    untrained = make_estimator(config).evaluate(eval_input_fn)
    trained = make_estimator(config).train(train_input_fn, max_steps=20).evaluate(eval_input_fn)
    assert trained["global_step"] == 20
    assert trained["loss"] < untrained["loss"]
    assert os.path.exists(tmp_path / "run" / "graph.pbtxt")
    assert os.path.basename(tf.train.latest_checkpoint(config.model_dir)) == "model.ckpt-20"

    resumed = make_estimator(config)
    assert resumed.evaluate(eval_input_fn) == pytest.approx(trained, rel=1e-6)
    resumed.train(train_input_fn, steps=40)
    results = resumed.evaluate(eval_input_fn)
    assert results["global_step"] == 60
    assert results["loss"] < trained["loss"]
    assert results["accuracy"] > 0.6
    losses = losses_in_events(config.model_dir)
    assert len(losses) >= 60 / 5
    assert losses[-1] < losses[0]
    assert losses_in_events(resumed.eval_dir()) == pytest.approx(
        [untrained["loss"], trained["loss"], trained["loss"], results["loss"]]
    )

    x, y = examples()
    predictions = np.stack([prediction["probabilities"] for prediction in resumed.predict(eval_input_fn)])
    assert np.mean(predictions.argmax(axis=1) == y) == pytest.approx(results["accuracy"])
    receiver_fn = et.export.build_raw_serving_input_receiver_fn({"x_input": tf.zeros([1, 4])})
    folder = resumed.export_saved_model(str(tmp_path / "export"), receiver_fn).decode()
    signatures = tf.saved_model.load(folder).signatures
    served = signatures["predict" if "predict" in signatures else "serving_default"](x_input=tf.constant(x))
    np.testing.assert_allclose(served["probabilities"], predictions, rtol=1e-5)


@pytest.mark.parametrize("make_estimator", [keras_model, graph_model])
def test_train_and_evaluate_exports(make_estimator, tmp_path):
    receiver_fn = et.export.build_raw_serving_input_receiver_fn({"x_input": tf.zeros([1, 4])})
    exporter = et.FinalExporter("final", receiver_fn)
    estimator = make_estimator(et.RunConfig(str(tmp_path), save_checkpoints_steps=10))
    results, (exported,) = et.train_and_evaluate(
        estimator,
        et.TrainSpec(train_input_fn, max_steps=20),
        et.EvalSpec(eval_input_fn, exporters=exporter, start_delay_secs=0, throttle_secs=0),
    )
    assert results["global_step"] == 20
    assert tf.saved_model.contains_saved_model(exported.decode())


def test_the_command_trains_20_steps(tmp_path):
    command = os.path.join(sysconfig.get_path("scripts"), "estimator_train")
    small = ["--limit", "8", "--model", "small_cnn", "--image-size", "32", "--batch-size", "4"]
    arguments = [command, *small, "--max-steps", "20", "--model-dir", "run"]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert os.path.exists(tmp_path / "run" / "model.ckpt-20.index")
