"""A trainer in the way of tensor2tensor's: a registry of models, and an Experiment that learn_runner runs.

    python trainer.py --output_dir DIR --model small_net --hparams_set small_net_base --hparams filters=3

The images are a toy: one half is bright, and the label says which.
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf
import trainer_registry as registry
from tensorflow.contrib.learn.python.learn import learn_runner
from tensorflow.contrib.learn.python.learn.utils import saved_model_export_utils

flags = tf.flags
FLAGS = flags.FLAGS

flags.DEFINE_string("output_dir", None, "The model_dir.")
flags.DEFINE_string("model", "small_net", "Which model.")
flags.DEFINE_string("hparams_set", "small_net_base", "Which hyperparameters.")
flags.DEFINE_string("hparams", "", "Hyperparameters in place of those of the set.")
flags.DEFINE_string("schedule", "continuous_train_and_eval", "Which method of the Experiment.")
flags.DEFINE_integer("train_steps", 60, "The last step.")


def input_fn(mode):
    random = np.random.RandomState(0)
    labels = np.arange(32, dtype=np.int32) % 2
    images = random.uniform(0.0, 0.3, size=(32, 8, 8, 1)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        image[:, label * 4 : label * 4 + 4] += 0.7
    dataset = tf.contrib.data.Dataset.from_tensor_slices(({"image": images}, labels))
    if mode == tf.estimator.ModeKeys.TRAIN:
        dataset = dataset.apply(tf.contrib.data.shuffle_and_repeat(32, seed=1))
    return dataset.apply(tf.contrib.data.batch_and_drop_remainder(8)).make_one_shot_iterator().get_next()


def serving_input_fn():
    image = tf.placeholder(tf.float32, [None, 8, 8, 1])
    return tf.estimator.export.ServingInputReceiver({"image": image}, {"image": image})


def model_fn(features, labels, mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN
    with tf.variable_scope(FLAGS.model):
        logits = registry.model(FLAGS.model)(features["image"], params, training)
    classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput({"class": classes})}
        return tf.estimator.EstimatorSpec(mode, {"class": classes}, export_outputs=outputs)
    tf.contrib.losses.sparse_softmax_cross_entropy(logits, labels)
    loss = tf.contrib.losses.get_total_loss()
    metrics = {"accuracy": tf.contrib.metrics.streaming_accuracy(classes, labels)}
    train_op = None
    if training:
        train_op = tf.contrib.layers.optimize_loss(
            loss,
            tf.train.get_global_step(),
            params.learning_rate,
            optimizer=lambda learning_rate: tf.contrib.opt.AdamWOptimizer(params.weight_decay, learning_rate),
            clip_gradients=1.0,
            summaries=["loss", "learning_rate"],
        )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def experiment_fn(run_config, hparams):
    return tf.contrib.learn.Experiment(
        tf.estimator.Estimator(model_fn, config=run_config, params=hparams),
        train_input_fn=lambda: input_fn(tf.estimator.ModeKeys.TRAIN),
        eval_input_fn=lambda: input_fn(tf.estimator.ModeKeys.EVAL),
        train_steps=FLAGS.train_steps,
        eval_steps=4,
        min_eval_frequency=20,
        train_monitors=[tf.train.StepCounterHook(every_n_steps=20, output_dir=FLAGS.output_dir)],
        export_strategies=[saved_model_export_utils.make_export_strategy(serving_input_fn)],
    )


def main(_):
    tf.set_random_seed(1)
    cluster = tf.contrib.cluster_resolver.TPUClusterResolver("").cluster_spec().as_dict()
    loaded = [name for name in registry.MODULES if "trainer_models." + name in sys.modules]
    hparams = registry.hparams(FLAGS.hparams_set, FLAGS.hparams)
    config = tf.contrib.learn.RunConfig(model_dir=FLAGS.output_dir, save_checkpoints_steps=20, tf_random_seed=1)
    metrics, exports = learn_runner.run(experiment_fn, schedule=FLAGS.schedule, run_config=config, hparams=hparams)
    reader = tf.train.load_checkpoint(FLAGS.output_dir)
    result = {
        "accuracy": float(metrics["accuracy"]),
        "global_step": int(metrics["global_step"]),
        "exports": [os.path.relpath(os.path.dirname(path.decode()), FLAGS.output_dir) for path in exports],
        "shapes": {name: shape for name, shape in reader.get_variable_to_shape_map().items() if "Adam" not in name},
        "loaded_before": loaded,
        "cluster": cluster,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    tf.app.run()
