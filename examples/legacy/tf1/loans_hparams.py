"""Predicts who pays a loan back with a network of tf.layers and HParams, for TensorFlow 1.12; the data is generated."""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.logging.set_verbosity(tf.logging.INFO)

flags = tf.app.flags
flags.DEFINE_string("model_dir", None, "Directory for checkpoints; a temporary one by default.")
flags.DEFINE_string("hparams", "learning_rate=0.05,layers=[16,8]", "Overrides of hyperparameters.")
flags.DEFINE_integer("max_steps", 300, "Maximum number of training steps.")
FLAGS = flags.FLAGS

COLUMNS = ["income", "debt", "age", "years_employed"]


def default_hparams():
    return tf.contrib.training.HParams(
        layers=[32, 16],
        learning_rate=0.01,
        l1=1e-4,
        l2=1e-3,
        keep_prob=1.0,
        activation="relu",
        clip_norm=5.0,
    )


def draw(count, seed):
    random = np.random.RandomState(seed)
    columns = random.normal(size=(count, len(COLUMNS))).astype(np.float32)
    chance = columns.dot([1.5, -1.0, 0.3, 0.8]) + 0.5 * columns[:, 0] * columns[:, 1]
    paid = (chance + random.logistic(scale=0.5, size=count) > 0).astype(np.int32)
    return dict(zip(COLUMNS, columns.T)), paid


def make_input_fn(data, batch_size, num_epochs):
    def input_fn():
        dataset = tf.data.Dataset.from_tensor_slices(data)
        dataset = dataset.repeat(num_epochs).batch(batch_size)
        return dataset.make_one_shot_iterator().get_next()

    return input_fn


def model_fn(features, labels, mode, params):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = tf.stack([features[column] for column in COLUMNS], axis=1)
    regularizer = tf.contrib.layers.l1_l2_regularizer(params.l1, params.l2)
    for index, units in enumerate(params.layers):
        net = tf.layers.dense(
            net,
            units,
            activation=getattr(tf.nn, params.activation),
            kernel_initializer=tf.contrib.layers.xavier_initializer(seed=index),
            kernel_regularizer=regularizer,
            name="hidden_%d" % index,
        )
        net = tf.layers.dropout(net, 1 - params.keep_prob, training=is_training)
    logits = tf.layers.dense(
        net, 2, kernel_initializer=tf.contrib.layers.variance_scaling_initializer(uniform=True, seed=7), name="logits"
    )

    predictions = {"class": tf.argmax(logits, 1), "probability": tf.nn.softmax(logits)[:, 1]}
    if mode == tf.estimator.ModeKeys.PREDICT:
        export_outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=export_outputs)

    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits) + tf.losses.get_regularization_loss()
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {
            "accuracy": tf.metrics.accuracy(labels, predictions["class"]),
            "auc": tf.metrics.auc(labels, predictions["probability"]),
        }
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.exponential_decay(params.learning_rate, global_step, 50, 0.7)
    optimizer = tf.contrib.estimator.clip_gradients_by_norm(tf.train.AdamOptimizer(learning_rate), params.clip_norm)
    train_op = tf.contrib.training.create_train_op(loss, optimizer, global_step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def serving_input_receiver_fn():
    columns = {column: tf.placeholder(tf.float32, [None], name=column) for column in COLUMNS}
    return tf.estimator.export.ServingInputReceiver(columns, columns)


def main(unused_argv):
    hparams = default_hparams().parse(FLAGS.hparams)
    tf.logging.info("Hyperparameters: %s", hparams.to_json(sort_keys=True))
    config = tf.estimator.RunConfig(save_checkpoints_steps=20, tf_random_seed=1)
    model_dir = FLAGS.model_dir or tempfile.mkdtemp()
    estimator = tf.estimator.Estimator(model_fn, model_dir, config, hparams)

    os.makedirs(estimator.eval_dir(), exist_ok=True)
    early_stopping = tf.contrib.estimator.stop_if_no_decrease_hook(
        estimator, "loss", max_steps_without_decrease=40, run_every_secs=None, run_every_steps=20
    )
    eval_data = draw(200, seed=2)
    train_spec = tf.estimator.TrainSpec(
        make_input_fn(draw(400, seed=1), 50, None), max_steps=FLAGS.max_steps, hooks=[early_stopping]
    )
    eval_spec = tf.estimator.EvalSpec(make_input_fn(eval_data, 100, 1), steps=None, start_delay_secs=0, throttle_secs=0)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    metrics = estimator.evaluate(make_input_fn(eval_data, 100, 1))

    export_dir = estimator.export_savedmodel(os.path.join(model_dir, "export"), serving_input_receiver_fn)
    predict = tf.contrib.predictor.from_saved_model(export_dir)
    served = predict({column: values[:5] for column, values in eval_data[0].items()})

    results = {
        "hparams": json.loads(hparams.to_json()),
        "metrics": {name: float(value) for name, value in metrics.items()},
        "kernel": estimator.get_variable_value("hidden_0/kernel")[0].tolist(),
        "classes": served["class"].tolist(),
        "probabilities": served["probability"].tolist(),
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    tf.app.run()
