"""The kinds of models that the laws of tests/laws hold for: a classifier and a counter of each."""

import glob

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import estimator_train as et
from estimator_train._engine import checkpoints

v1 = tf.compat.v1

KERASES = {"tf_keras": tf_keras, "keras3": keras3}
KINDS = [*KERASES, "model_fn", "canned"]  # with an optimizer of TensorFlow 1; with a head, and optimizers of Keras
CLASSES = 3
FEATURES = 4
ROWS = 12


def each_kind(*fast):
    """Gives a test every kind; those that are not named are slow cases."""
    cases = [kind if kind in fast else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
    return pytest.mark.parametrize("kind", cases)


def config(model_dir, replicas=None, **settings):
    """Returns a RunConfig for training and evaluation on a strategy's replicas, which writes no graphs or summaries."""
    quiet = {"save_checkpoints_steps": 1000, "save_summary_steps": None, "checkpoint_save_graph_def": False}
    strategies = {"train_distribute": replicas, "eval_distribute": replicas}
    return et.RunConfig(str(model_dir), 3, **(quiet | strategies | settings))


def classifier(kind, config, is_plain=False):
    """Returns an Estimator of the classes of the feature "x_input"; its learning rate falls at each step.

    Unless it is plain, it normalizes batches, and drops units in a model of Keras.
    """
    if kind in KERASES:
        return et.model_to_estimator(_keras_classifier(KERASES[kind], is_plain), config=config)
    if kind == "model_fn":
        return et.Estimator(_classifier_fn, config=config, params={"is_plain": is_plain})
    return _canned_classifier(config, is_plain)


def _falling_rate(keras):
    return keras.optimizers.schedules.ExponentialDecay(0.05, 1, 0.8)


def _keras_classifier(keras, is_plain):
    layers = keras.layers
    inner = [] if is_plain else [layers.BatchNormalization(momentum=0.9), layers.Dropout(0.3)]
    body = [layers.Dense(8, "tanh"), *inner, layers.Dense(CLASSES, "softmax", name="probabilities")]
    model = keras.Sequential([keras.Input((FEATURES,), name="x_input"), *body])
    model.compile(keras.optimizers.Adam(_falling_rate(keras)), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _classifier_fn(features, labels, mode, params):
    hidden = v1.layers.dense(features["x_input"], 8, activation=tf.nn.tanh)
    if not params["is_plain"]:
        hidden = v1.layers.batch_normalization(hidden, momentum=0.9, training=mode == et.ModeKeys.TRAIN)
    logits = v1.layers.dense(hidden, CLASSES)
    probabilities = tf.nn.softmax(logits)
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, {"probabilities": probabilities})
    loss, step = v1.losses.sparse_softmax_cross_entropy(labels, logits), v1.train.get_global_step()
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_op = v1.train.AdamOptimizer(v1.train.exponential_decay(0.05, step, 1, 0.8)).minimize(loss, step)
    metrics = {"accuracy": v1.metrics.accuracy(labels, tf.argmax(probabilities, axis=1))}
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def examples(batch_size, epochs=None):
    """Returns a dataset of 48 examples for a classifier, in order."""
    x = np.random.default_rng(5).normal(size=(48, FEATURES)).astype("float32")
    classes = (x[:, :1] > 0).astype("int64") + (x[:, 1:2] > 0.3)
    return tf.data.Dataset.from_tensor_slices(({"x_input": x}, classes)).repeat(epochs).batch(batch_size)


def _canned_classifier(config, is_plain):
    x = tf.feature_column.numeric_column("x_input", shape=(FEATURES,))
    buckets = tf.feature_column.bucketized_column(x, [-0.5, 0.5])
    return et.DNNLinearCombinedClassifier(
        linear_feature_columns=[buckets],
        dnn_feature_columns=[x, tf.feature_column.embedding_column(buckets, 2)],
        dnn_optimizer=lambda: tf_keras.optimizers.Adam(_falling_rate(tf_keras)),
        dnn_hidden_units=[8],
        batch_norm=not is_plain,
        n_classes=CLASSES,
        config=config,
    )


def variables(estimator):
    """Returns what the newest checkpoint holds, except the number of checkpoints and the description of the model."""
    reader = tf.train.load_checkpoint(estimator.latest_checkpoint())
    names = [
        name for name in reader.get_variable_to_shape_map() if not name.startswith(("save_counter", "_CHECKPOINT"))
    ]
    return {name: reader.get_tensor(name) for name in names}


def counter(kind, config, examples=ROWS):
    """Returns an Estimator with one weight for each row of np.eye(examples): it counts the steps that used the row."""
    if kind in KERASES:
        return et.model_to_estimator(_keras_counter(KERASES[kind], examples), config=config)
    return et.Estimator({"model_fn": _counter_fn, "canned": _counter_of_a_head}[kind], config=config)


def _keras_counter(keras, examples):
    class MinusSum(keras.losses.Loss):
        """Its gradient adds up the examples of all replicas' batches."""

        def __init__(self):
            super().__init__(reduction="sum")

        def call(self, y_true, y_pred):
            return 0 - y_pred[:, 0]

    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((examples,)), dense])
    model.compile(keras.optimizers.SGD(1.0), MinusSum(), metrics=["mae"])
    return model


def _counted(features):
    kernel = v1.get_variable("kernel", [features.shape[1], 1], initializer=v1.zeros_initializer())
    return kernel, features @ kernel


def _counter_fn(features, labels, mode):
    _, predictions = _counted(features)
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, {"dense": predictions})
    loss = -tf.reduce_sum(predictions)
    train_op = v1.train.GradientDescentOptimizer(1.0).minimize(loss, v1.train.get_global_step())
    metrics = {"mae": v1.metrics.mean_absolute_error(labels, predictions)}
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def _counter_of_a_head(features, labels, mode):
    kernel, predictions = _counted(features)
    head = et.RegressionHead(loss_reduction="sum", loss_fn=lambda labels, logits: 0 - logits)
    optimizer = tf_keras.optimizers.SGD(1.0)
    mae = {"mae": v1.metrics.mean_absolute_error(labels, predictions)} if mode == et.ModeKeys.EVAL else None
    spec = head.create_estimator_spec(
        features, mode, predictions, labels, optimizer=optimizer, trainable_variables=[kernel]
    )
    return spec._replace(eval_metric_ops=spec.eval_metric_ops | mae) if mae else spec


def rows(examples=ROWS, batch_size=1, epochs=1):
    """An input_fn of the rows of np.eye(examples), labelled 0."""
    x = np.eye(examples, dtype="float32")
    tensors = (x, np.zeros([examples, 1], "float32"))
    return lambda: tf.data.Dataset.from_tensor_slices(tensors).repeat(epochs).batch(batch_size)


def counts(estimator):
    """Returns how often the newest checkpoint of a counter was trained on each row."""
    (kernel,) = (value for name, value in variables(estimator).items() if "kernel" in name)
    return kernel[:, 0].tolist()


def checkpoint_steps(estimator):
    """Returns the steps of the checkpoints on disk."""
    return sorted(int(path[:-6].rsplit("-", 1)[1]) for path in glob.glob(f"{estimator.model_dir}/model.ckpt-*.index"))


def global_step(estimator):
    return checkpoints.read_global_step(estimator.latest_checkpoint())
