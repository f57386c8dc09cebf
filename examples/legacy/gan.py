"""A generative adversarial network in a model_fn, with two scopes, two optimizers and a hook for the discriminator.

It learns points on a circle. Written for TensorFlow 1.x and moved to tf.compat.v1.
"""

import json
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

tf.app.flags.DEFINE_string("model_dir", "", "Directory for checkpoints; a temporary one by default.")
tf.app.flags.DEFINE_integer("steps", 40, "Updates of the generator.")
tf.app.flags.DEFINE_integer("discriminator_steps", 2, "Updates of the discriminator for each of the generator's.")
FLAGS = tf.app.flags.FLAGS

BATCH, NOISE, UNITS = 16, 3, 12


def input_fn():
    """Returns batches of noise and of points on the unit circle."""
    random = np.random.RandomState(11)
    angles = random.uniform(0, 2 * np.pi, size=160)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    noise = random.normal(size=(160, NOISE)).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(({"noise": noise}, {"points": points}))
    return dataset.repeat().batch(BATCH, drop_remainder=True)


def dense(net, units, name, activation=None):
    rows = net.shape[1].value
    seed = sum(ord(letter) for letter in name)
    initial = np.random.RandomState(seed).normal(scale=rows**-0.5, size=(rows, units)).astype(np.float32)
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", initializer=initial)
        biases = tf.get_variable("biases", [units], initializer=tf.zeros_initializer())
    net = tf.matmul(net, weights) + biases
    return activation(net) if activation else net


def generator(noise):
    with tf.variable_scope("generator", reuse=tf.AUTO_REUSE):
        return dense(dense(noise, UNITS, "hidden", tf.nn.tanh), 2, "points")


def discriminator(points):
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        return dense(dense(points, UNITS, "hidden", tf.nn.leaky_relu), 1, "logits")


class RunTrainOpHook(tf.train.SessionRunHook):
    """Runs a train op several times before every step."""

    def __init__(self, train_op, times):
        self._train_op = train_op
        self._times = times

    def before_run(self, run_context):
        for _ in range(self._times):
            run_context.session.run(self._train_op)


def model_fn(features, labels, mode, params, config):
    fake = generator(features["noise"])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"points": fake})

    real_logits, fake_logits = discriminator(labels["points"]), discriminator(fake)
    cross_entropy = tf.losses.sigmoid_cross_entropy
    real_loss = cross_entropy(tf.ones_like(real_logits), real_logits, label_smoothing=0.1)
    discriminator_loss = real_loss + cross_entropy(tf.zeros_like(fake_logits), fake_logits)
    generator_loss = cross_entropy(tf.ones_like(fake_logits), fake_logits)
    loss = tf.add(generator_loss, discriminator_loss, name="gan_loss")
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {
            "generator_loss": tf.metrics.mean(generator_loss),
            "discriminator_loss": tf.metrics.mean(discriminator_loss),
            "radius": tf.metrics.mean(tf.norm(fake, axis=1)),
        }
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    tf.summary.scalar("generator_loss", generator_loss)
    tf.summary.histogram("points", fake)
    generator_op = tf.train.AdamOptimizer(params["learning_rate"], beta1=0.5).minimize(
        generator_loss,
        global_step=tf.train.get_global_step(),
        var_list=tf.trainable_variables("generator"),
    )
    discriminator_op = tf.train.RMSPropOptimizer(params["learning_rate"]).minimize(
        discriminator_loss, var_list=tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="discriminator")
    )
    hooks = [RunTrainOpHook(discriminator_op, params["discriminator_steps"])]
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=generator_op, training_hooks=hooks)


def main(_):
    config = tf.estimator.RunConfig(save_summary_steps=5, keep_checkpoint_max=2, tf_random_seed=1)
    params = {"learning_rate": 0.01, "discriminator_steps": FLAGS.discriminator_steps}
    estimator = tf.estimator.Estimator(model_fn, FLAGS.model_dir or tempfile.mkdtemp(), config, params)

    # Every call of train starts the input from the beginning.
    evaluations = []
    for _ in range(2):
        logging = tf.train.LoggingTensorHook(["gan_loss"], every_n_iter=5)
        estimator.train(input_fn, steps=FLAGS.steps // 2, hooks=[logging])
        metrics = estimator.evaluate(input_fn, steps=3)
        evaluations.append({name: float(value) for name, value in metrics.items()})

    points = [row["points"].tolist() for row, _ in zip(estimator.predict(input_fn), range(4))]
    names = [name for name in estimator.get_variable_names() if name.startswith("discriminator/logits/")]
    print("results: " + json.dumps({"evaluations": evaluations, "points": points, "variables": sorted(names)}))


if __name__ == "__main__":
    tf.app.run(main)
