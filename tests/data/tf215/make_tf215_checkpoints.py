"""Writes the checkpoints beside this file, and expected.json, with the tf.estimator of TensorFlow 2.15.

    python tests/data/tf215/make_tf215_checkpoints.py

Each of KINDS trains 3 steps of one batch each. expected.json holds the data, the evaluation metrics and predictions at
step 3, the losses of the next 3 steps on the same data, and the metrics after them. The data and, but for the canned
estimator's, the initial values are numpy's, so that every run writes the same numbers.
"""

import glob
import json
import os
import shutil
import tempfile

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, EXAMPLES, BATCH = 3, 12, 4


def data():
    random = np.random.RandomState(215)
    features = random.normal(size=(EXAMPLES, 4)).round(2).astype("float32")
    return features, (features[:, 0] > 0).astype("int32") + (features[:, 1] > 0.3)


def given(*shape):
    """Initial weights of a layer, the same for every layer of that shape."""
    return np.random.RandomState(sum(shape)).normal(scale=0.4, size=shape).astype("float32")


def model_fn(features, labels, mode, params):
    """A dense network under Adam; its checkpoint is name-based."""
    hidden = v1.layers.dense(
        features["x"], 8, tf.nn.tanh, kernel_initializer=v1.constant_initializer(given(4, 8)), name="hidden"
    )
    logits = v1.layers.dense(hidden, 3, kernel_initializer=v1.constant_initializer(given(8, 3)), name="logits")
    predictions = {"probabilities": tf.nn.softmax(logits), "classes": tf.argmax(logits, axis=1)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": v1.metrics.accuracy(labels, predictions["classes"])}
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = v1.train.AdamOptimizer(params["learning_rate"])
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def from_model_fn(config):
    return tf.estimator.Estimator(model_fn, config=config, params={"learning_rate": 0.05})


def keras_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(8, activation="tanh", input_shape=(4,), name="hidden"),
            tf.keras.layers.BatchNormalization(momentum=0.8, name="norm"),
            tf.keras.layers.Dense(3, activation="softmax", name="classes"),
        ],
        name="small",
    )
    for name, weights in {"hidden": given(4, 8), "classes": given(8, 3)}.items():
        model.get_layer(name).set_weights([weights, np.zeros(weights.shape[1])])
    optimizer = tf.keras.optimizers.legacy.Adam(0.05)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def from_keras(config, checkpoint_format):
    model = keras_model()
    return tf.keras.estimator.model_to_estimator(model, config=config, checkpoint_format=checkpoint_format)


def from_dnn_classifier(config):
    """Its own random initial values: only what follows the checkpoint can be compared."""
    columns = [tf.feature_column.numeric_column("x", shape=(4,))]
    return tf.estimator.DNNClassifier([8], columns, n_classes=3, config=config)


KINDS = {
    "model_fn": from_model_fn,
    "keras_checkpoint": lambda config: from_keras(config, "checkpoint"),
    "keras_saver": lambda config: from_keras(config, "saver"),
    "dnn_classifier": from_dnn_classifier,
}


class Losses(tf.estimator.SessionRunHook):
    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(v1.get_collection(v1.GraphKeys.LOSSES)[-1])

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


def input_fn(key):
    """Returns the batches in order; `key` is the name of the model's features."""
    features, labels = data()
    return tf.data.Dataset.from_tensor_slices(({key: features}, labels)).batch(BATCH)


def make(kind):
    """Writes the checkpoint of `kind`; returns what is expected of it."""
    key = "hidden_input" if kind.startswith("keras") else "x"
    model_dir = tempfile.mkdtemp()
    estimator = KINDS[kind](tf.estimator.RunConfig(model_dir, tf_random_seed=1))
    estimator.train(lambda: input_fn(key), steps=STEPS)
    keep(estimator.latest_checkpoint(), os.path.join(HERE, kind))
    losses = Losses()
    expected = {
        "variables": {name: shape for name, shape in tf.train.list_variables(estimator.latest_checkpoint())},
        "metrics": evaluate(estimator, key),
        "predictions": [
            {name: array.tolist() for name, array in row.items() if array.dtype.kind in "fi"}
            for row in estimator.predict(lambda: input_fn(key))
        ],
        "next_losses": losses.values,
    }
    estimator.train(lambda: input_fn(key), steps=STEPS, hooks=[losses])
    return {**expected, "metrics_after": evaluate(estimator, key)}


def evaluate(estimator, key):
    return {name: value.item() for name, value in estimator.evaluate(lambda: input_fn(key)).items()}


def keep(checkpoint, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for path in glob.glob(checkpoint + ".*"):
        if not path.endswith(".meta"):
            shutil.copy(path, folder)
    v1.train.update_checkpoint_state(folder, os.path.basename(checkpoint))


def main():
    features, labels = data()
    expected = {"tensorflow": tf.__version__, "features": features.tolist(), "labels": labels.tolist(), "batch": BATCH}
    for kind in KINDS:
        expected[kind] = make(kind)
    with open(os.path.join(HERE, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
