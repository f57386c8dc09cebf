"""Models of one weight w, which grows by 1 a step, and what tests share with them: input_fns, a receiver, a hook."""

import glob
import os

import numpy as np
import tensorflow as tf
import tf_keras as keras

import estimator_train as et

v1 = tf.compat.v1

KINDS = ["keras", "model_fn"]


def one_weight(optimizer, loss, metrics=()):
    """Returns a compiled Keras model whose prediction is w x."""
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,), name="dense")
    model = keras.Sequential([dense])
    model.compile(optimizer, loss, metrics=list(metrics))
    return model


def _spec(mode, features, labels, loss_fn, metrics):
    w = v1.get_variable("w", [], initializer=v1.zeros_initializer(), aggregation=tf.VariableAggregation.MEAN)
    prediction = features * w
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, predictions={"dense": prediction})
    loss = tf.identity(loss_fn(labels, prediction), name="loss")
    with tf.control_dependencies([loss]):  # else it may be read after the update
        train_op = v1.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=v1.train.get_global_step())
    metrics = {name: metric(labels, prediction) for name, metric in metrics.items()}
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def approaching(kind, config):
    """Returns an Estimator of a kind with the loss |y - w x|; labels like those of FAR let w grow by 1 a step."""
    if kind == "keras":
        return et.model_to_estimator(one_weight(keras.optimizers.SGD(1.0), "mae", ["mse"]), config=config)
    return et.Estimator(approaching_model_fn, config=config)


def approaching_model_fn(features, labels, mode):
    metrics = {"mse": v1.metrics.mean_squared_error}
    return _spec(
        mode, features, labels, lambda labels, prediction: tf.reduce_mean(tf.abs(labels - prediction)), metrics
    )


class _MinusMean(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return 0 - y_pred[:, 0]


def growing(kind, config):
    """Returns an Estimator of a kind with the loss -w x."""
    if kind == "keras":
        return et.model_to_estimator(one_weight(keras.optimizers.SGD(1.0), _MinusMean(), ["mae"]), config=config)
    return et.Estimator(_growing_model_fn, config=config)


def _growing_model_fn(features, labels, mode):
    metrics = {"mae": v1.metrics.mean_absolute_error}
    return _spec(mode, features, labels, lambda labels, prediction: -tf.reduce_mean(prediction), metrics)


def maker(estimator, kind, model_dir, **settings):
    """Returns a function that makes an Estimator; its arguments are settings of RunConfig and override `settings`."""
    return lambda **changes: estimator(kind, et.RunConfig(**{"model_dir": model_dir} | settings | changes))


def label(value, batches=None):
    """An input_fn of so many batches of one example, whose feature is 1."""
    return lambda: tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.fill([1, 1], value))).repeat(batches)


FAR = label(1e3)


def receiver():
    x = v1.placeholder(tf.float32, [None, 1])
    return et.export.TensorServingInputReceiver(x, x)


def eagerly(model):
    """Keras' own numbers, of eager mode: tracing its functions, too, would take as long as tracing ours."""
    model.run_eagerly = True
    return model


def assert_close(ours, theirs, tolerance):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


class Fetched(et.SessionRunHook):
    """Keeps the values of tensors at each step; `fetches` may be a function that returns them once there is a graph."""

    def __init__(self, fetches="loss:0"):
        self._fetches = fetches
        self.values = []

    def begin(self):
        self._tensors = self._fetches() if callable(self._fetches) else self._fetches

    def before_run(self, run_context):
        return et.SessionRunArgs(self._tensors)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def events(directory):
    """Returns (step, tag, value) of the event files in a directory; the value of anything but a scalar is None."""
    return [
        (event.step, value.tag, _content(value))
        for path in sorted(glob.glob(os.path.join(directory, "events.out.tfevents.*")))
        for event in v1.train.summary_iterator(path)
        for value in event.summary.value
    ]


def _content(value):
    if value.HasField("simple_value"):
        return value.simple_value
    is_scalar = value.HasField("tensor") and not value.tensor.tensor_shape.dim
    return tf.make_ndarray(value.tensor).item() if is_scalar else None


def scalars(directory, tag="loss"):
    """Returns (step, value) of each event of a tag."""
    return [(step, value) for step, name, value in events(directory) if name == tag]
