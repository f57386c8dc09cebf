"""CycleGAN in a model_fn: two generators, two discriminators, an optimizer for each, and one train op for all four.

It turns images that are bright on the left into images that are bright at the top, and back. Written for TensorFlow 1.x
and moved to tf.compat.v1.
"""

import json
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

tf.app.flags.DEFINE_string("model_dir", "", "Directory for checkpoints; a temporary one by default.")
tf.app.flags.DEFINE_integer("steps", 20, "Updates of each network.")
tf.app.flags.DEFINE_float("cycle_weight", 10.0, "Weight of the cycle losses relative to the adversarial ones.")
FLAGS = tf.app.flags.FLAGS

BATCH, IMAGES, SIDE, CHANNELS = 4, 32, 8, 4


def images(kind):
    """Returns float32 images (IMAGES, SIDE, SIDE, 1) that get darker from left to right, or from top to bottom."""
    random = np.random.RandomState({"left": 3, "top": 4}[kind])
    ramp = np.linspace(1, -1, SIDE).reshape((1, 1, SIDE, 1) if kind == "left" else (1, SIDE, 1, 1))
    noise = random.normal(scale=0.1, size=(IMAGES, SIDE, SIDE, 1))
    return (ramp * random.uniform(0.5, 0.9, size=(IMAGES, 1, 1, 1)) + noise).astype(np.float32)


def input_fn():
    pairs = tf.data.Dataset.zip(tuple(tf.data.Dataset.from_tensor_slices(images(kind)) for kind in ("left", "top")))
    return pairs.map(lambda x, y: {"x": x, "y": y}).cache().repeat().batch(BATCH, drop_remainder=True).prefetch(1)


def conv(net, filters, name, strides=1, activation=None):
    channels = net.shape[-1].value
    seed = sum(ord(letter) for letter in tf.get_variable_scope().name + name)
    scale = (9 * channels) ** -0.5
    initial = np.random.RandomState(seed).normal(scale=scale, size=(3, 3, channels, filters)).astype(np.float32)
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", initializer=initial)
        biases = tf.get_variable("biases", [filters], initializer=tf.zeros_initializer())
    net = tf.nn.conv2d(net, kernel, strides=[1, strides, strides, 1], padding="SAME") + biases
    return activation(net) if activation else net


def generator(net, name):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        return conv(conv(net, CHANNELS, "hidden", activation=tf.nn.tanh), 1, "image", activation=tf.nn.tanh)


def discriminator(net, name):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        return conv(conv(net, CHANNELS, "hidden", 2, tf.nn.leaky_relu), 1, "patches")


def model_fn(features, labels, mode, params, config):
    x = features["x"]
    fake_y = generator(x, "G")
    cycled_x = generator(fake_y, "F")
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"generated": fake_y, "error": tf.reduce_mean(tf.abs(x - cycled_x), axis=[1, 2, 3])}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    y = features["y"]
    fake_x = generator(y, "F")
    cycled_y = generator(fake_x, "G")
    square = tf.losses.mean_squared_error
    judged = {
        "X": (discriminator(x, "X"), discriminator(fake_x, "X")),
        "Y": (discriminator(y, "Y"), discriminator(fake_y, "Y")),
    }
    errors = {"G": tf.losses.absolute_difference(y, cycled_y), "F": tf.losses.absolute_difference(x, cycled_x)}
    # Squared errors, because the gradients of absolute errors jump and amplify rounding differences.
    cycle = params["cycle_weight"] * (square(y, cycled_y) + square(x, cycled_x))
    losses = {
        name: square(tf.ones_like(judged[other][1]), judged[other][1]) + cycle
        for name, other in (("G", "Y"), ("F", "X"))
    }
    for name, (real, fake) in judged.items():
        losses[name] = (square(tf.ones_like(real), real) + square(tf.zeros_like(fake), fake)) / 2
    loss = tf.add_n([losses[name] for name in "GFXY"], name="cyclegan_loss")
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"loss_%s" % name: tf.metrics.mean(losses[name]) for name in "GFXY"}
        metrics.update({"mae_%s/cycle" % name: tf.metrics.mean(errors[name]) for name in "GF"})
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizers = {name: tf.train.AdamOptimizer(params["learning_rate"], beta1=0.5) for name in "GFXY"}
    gradients = {
        name: optimizers[name].compute_gradients(losses[name], tf.trainable_variables(name + "/")) for name in "GFXY"
    }
    # Compute all gradients before any update, because the ops of a graph run in any order.
    with tf.control_dependencies([gradient for pairs in gradients.values() for gradient, _ in pairs]):
        updates = [
            optimizers[name].apply_gradients(gradients[name], tf.train.get_global_step() if name == "G" else None)
            for name in "GFXY"
        ]
    for name in "GFXY":
        tf.summary.scalar("loss_" + name, losses[name])
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(*updates))


def main(_):
    config = tf.estimator.RunConfig(save_summary_steps=10, tf_random_seed=1)
    params = {"learning_rate": 0.01, "cycle_weight": FLAGS.cycle_weight}
    estimator = tf.estimator.Estimator(model_fn, FLAGS.model_dir or tempfile.mkdtemp(), config, params)

    # The second training continues with the state of all four optimizers.
    evaluations = []
    for _ in range(2):
        estimator.train(input_fn, steps=FLAGS.steps // 2)
        metrics = estimator.evaluate(input_fn, steps=IMAGES // BATCH)
        evaluations.append({name: float(value) for name, value in sorted(metrics.items())})

    predictions = [row for row, _ in zip(estimator.predict(input_fn), range(4))]
    errors = [float(row["error"]) for row in predictions]
    corners = [row["generated"][[0, -1], [-1, 0], 0].tolist() for row in predictions]
    slots = sorted(name for name in estimator.get_variable_names() if "hidden/kernel" in name)
    print("results: " + json.dumps({"evaluations": evaluations, "errors": errors, "corners": corners, "slots": slots}))


if __name__ == "__main__":
    tf.app.run(main)
