"""A convolutional network for digits, written for TensorFlow 1.x. The digits are drawn."""

import json
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.logging.set_verbosity(tf.logging.INFO)

flags = tf.app.flags
flags.DEFINE_string("model_dir", None, "Directory for checkpoints; a temporary one by default.")
flags.DEFINE_integer("steps", 40, "Training steps.")
flags.DEFINE_integer("batch_size", 20, "Images per step.")
flags.DEFINE_float("dropout", 0.0, "Dropout rate; above 0, two runs differ.")
FLAGS = flags.FLAGS

# (top, left, bottom, right) of the seven segments a to g of a digit, and the segments of each digit.
BOXES = {
    "a": (4, 9, 7, 19),
    "b": (4, 17, 15, 20),
    "c": (13, 17, 24, 20),
    "d": (21, 9, 24, 19),
    "e": (13, 8, 24, 11),
    "f": (4, 8, 15, 11),
    "g": (13, 9, 16, 19),
}
SEGMENTS = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]


def draw_digits(count, seed):
    random = np.random.RandomState(seed)
    labels = random.randint(10, size=count).astype(np.int32)
    images = random.uniform(0, 0.3, size=(count, 28, 28)).astype(np.float32)
    for image, label in zip(images, labels):
        down, right = random.randint(-3, 4, size=2)
        for segment in SEGMENTS[label]:
            top, left, bottom, end = BOXES[segment]
            image[top + down : bottom + down, left + right : end + right] += 0.7
    return images, labels


def fixed_normal(seed):
    """Returns an initializer whose values are drawn by NumPy, to be the same in every version of TensorFlow."""

    def initializer(shape, dtype=tf.float32, partition_info=None):
        shape = tf.TensorShape(shape).as_list()
        values = np.random.RandomState(seed).normal(scale=np.prod(shape[:-1]) ** -0.5, size=shape)
        return tf.constant(values, dtype)

    return initializer


def cnn_model_fn(features, labels, mode):
    net = tf.reshape(features["x"], [-1, 28, 28, 1])
    for layer, filters in enumerate([8, 16]):
        net = tf.layers.conv2d(
            inputs=net,
            filters=filters,
            kernel_size=[5, 5],
            padding="same",
            activation=tf.nn.relu,
            kernel_initializer=fixed_normal(layer),
        )
        net = tf.layers.max_pooling2d(inputs=net, pool_size=[2, 2], strides=2)
    net = tf.layers.flatten(net)
    net = tf.layers.dense(inputs=net, units=32, activation=tf.nn.relu, kernel_initializer=fixed_normal(2))
    net = tf.layers.dropout(inputs=net, rate=FLAGS.dropout, training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(inputs=net, units=10, kernel_initializer=fixed_normal(3))

    predictions = {
        "classes": tf.argmax(input=logits, axis=1),
        "probabilities": tf.nn.softmax(logits, name="softmax_tensor"),
    }
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode=mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    if mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.1)
        train_op = optimizer.minimize(loss=loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode=mode, loss=loss, train_op=train_op)

    eval_metric_ops = {"accuracy": tf.metrics.accuracy(labels=labels, predictions=predictions["classes"])}
    return tf.estimator.EstimatorSpec(mode=mode, loss=loss, eval_metric_ops=eval_metric_ops)


class LossHistory(tf.train.SessionRunHook):
    """Keeps the loss of every step, fetched by its tensor's name."""

    def begin(self):
        self.losses = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs({"loss": "sparse_softmax_cross_entropy_loss/value:0"})

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results["loss"]))


def main(unused_argv):
    train_data, train_labels = draw_digits(200, seed=1)
    eval_data, eval_labels = draw_digits(50, seed=2)
    model_dir = FLAGS.model_dir or tempfile.mkdtemp()
    mnist_classifier = tf.estimator.Estimator(model_fn=cnn_model_fn, model_dir=model_dir)

    logging_hook = tf.train.LoggingTensorHook(tensors={"probabilities": "softmax_tensor"}, every_n_iter=20)
    history = LossHistory()
    train_input_fn = tf.estimator.inputs.numpy_input_fn(
        x={"x": train_data}, y=train_labels, batch_size=FLAGS.batch_size, num_epochs=None, shuffle=False
    )
    mnist_classifier.train(input_fn=train_input_fn, steps=FLAGS.steps, hooks=[logging_hook, history])

    eval_input_fn = tf.estimator.inputs.numpy_input_fn(
        x={"x": eval_data}, y=eval_labels, batch_size=16, num_epochs=1, shuffle=False
    )
    metrics = mnist_classifier.evaluate(input_fn=eval_input_fn)

    predict_input_fn = tf.estimator.inputs.numpy_input_fn(x={"x": eval_data[:3]}, num_epochs=1, shuffle=False)
    predictions = list(mnist_classifier.predict(input_fn=predict_input_fn))

    results = {
        "losses": history.losses,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "classes": [int(row["classes"]) for row in predictions],
        "probabilities": [row["probabilities"].tolist() for row in predictions],
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    tf.app.run()
