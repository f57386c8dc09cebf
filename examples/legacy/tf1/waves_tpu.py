"""Tells sine from square waves with a convolution over time, with or without a TPU, for TensorFlow 1.11."""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.contrib import summary
from tensorflow.contrib.tpu.python.tpu import tpu_config, tpu_estimator

tf.flags.DEFINE_bool("use_tpu", False, "Use TPUs rather than CPUs or GPUs.")
tf.flags.DEFINE_string("model_dir", None, "Directory for checkpoints; a temporary one by default.")
tf.flags.DEFINE_integer("batch_size", 16, "Waves per step over all shards.")
tf.flags.DEFINE_integer("train_steps", 50, "Training steps.")
tf.flags.DEFINE_integer("iterations", 10, "Steps between returns to the host.")
tf.flags.DEFINE_bool("bfloat16", False, "Compute in bfloat16.")
FLAGS = tf.flags.FLAGS

LENGTH = 32
SHAPES = ["sine", "square", "saw"]


def draw_waves(path, count, seed):
    random = np.random.RandomState(seed)
    time = np.arange(LENGTH) / LENGTH
    with tf.python_io.TFRecordWriter(path) as writer:
        for _ in range(count):
            shape, phase = random.randint(len(SHAPES)), random.uniform()
            turns = 2 * time + phase
            wave = [np.sin(2 * np.pi * turns), np.sign(np.sin(2 * np.pi * turns)), 2 * (turns % 1) - 1][shape]
            wave = (wave + random.normal(scale=0.4, size=LENGTH)).astype(np.float32)
            feature = {
                "wave": tf.train.Feature(bytes_list=tf.train.BytesList(value=[wave.tobytes()])),
                "shape": tf.train.Feature(int64_list=tf.train.Int64List(value=[shape])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return path


def parse(record):
    parsed = tf.parse_single_example(
        record, {"wave": tf.FixedLenFeature([], tf.string), "shape": tf.FixedLenFeature([], tf.int64)}
    )
    wave = tf.reshape(tf.decode_raw(parsed["wave"], tf.float32), [LENGTH, 1])
    return wave, tf.to_int32(parsed["shape"])


def make_input_fn(pattern, is_training):
    def input_fn(params):
        files = tf.data.Dataset.list_files(pattern, shuffle=False)
        dataset = files.apply(
            tf.contrib.data.parallel_interleave(tf.data.TFRecordDataset, cycle_length=2, sloppy=False)
        )
        if is_training:
            dataset = dataset.apply(tf.contrib.data.shuffle_and_repeat(buffer_size=64, seed=3))
        dataset = dataset.apply(
            tf.contrib.data.map_and_batch(
                parse, batch_size=params["batch_size"], num_parallel_batches=2, drop_remainder=True
            )
        )
        return dataset.prefetch(tf.contrib.data.AUTOTUNE)

    return input_fn


def metric_fn(labels, logits):
    classes = tf.argmax(logits, axis=1, output_type=tf.int32)
    return {"accuracy": tf.metrics.accuracy(labels, classes)}


def model_fn(features, labels, mode, params):
    with tf.variable_scope("wave_net"):
        net = tf.layers.conv1d(
            features, 8, 5, strides=2, kernel_initializer=tf.variance_scaling_initializer(seed=1), padding="same"
        )
        net = tf.layers.batch_normalization(net, momentum=0.8, training=mode == tf.estimator.ModeKeys.TRAIN)
        net = tf.reduce_max(tf.nn.relu(net), axis=1)
        logits = tf.layers.dense(net, len(SHAPES), kernel_initializer=tf.variance_scaling_initializer(seed=2))
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.contrib.tpu.TPUEstimatorSpec(mode, predictions={"probabilities": tf.nn.softmax(logits)})

    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.contrib.tpu.TPUEstimatorSpec(mode, loss=loss, eval_metrics=(metric_fn, [labels, logits]))

    global_step = tf.train.get_global_step()
    learning_rate = tf.train.cosine_decay(params["learning_rate"], global_step, FLAGS.train_steps)
    optimizer = tf.contrib.tpu.CrossShardOptimizer(tf.train.MomentumOptimizer(learning_rate, 0.9, use_nesterov=True))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step)

    def host_call_fn(step, loss, learning_rate):
        step = step[0]
        with summary.create_file_writer(params["summary_dir"]).as_default(), summary.always_record_summaries():
            summary.scalar("loss", loss[0], step=step)
            summary.scalar("learning_rate", learning_rate[0], step=step)
            return summary.all_summary_ops()

    host_call = (host_call_fn, [tf.reshape(tensor, [1]) for tensor in (global_step, loss, learning_rate)])
    return tf.contrib.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, host_call=host_call)


def main(unused_argv):
    tf.logging.set_verbosity(tf.logging.INFO)
    data_dir = tempfile.mkdtemp()
    for shard in range(2):
        draw_waves(os.path.join(data_dir, "train-%d.tfrecord" % shard), 100, seed=shard)
    draw_waves(os.path.join(data_dir, "eval.tfrecord"), 64, seed=10)

    model_dir = FLAGS.model_dir or tempfile.mkdtemp()
    config = tpu_config.RunConfig(
        model_dir=model_dir,
        tf_random_seed=1,
        save_checkpoints_steps=25,
        session_config=tf.ConfigProto(allow_soft_placement=True),
        tpu_config=tpu_config.TPUConfig(iterations_per_loop=FLAGS.iterations, num_shards=8),
    )
    estimator = tpu_estimator.TPUEstimator(
        model_fn=model_fn,
        use_tpu=FLAGS.use_tpu,
        config=config,
        params={"learning_rate": 0.05, "summary_dir": os.path.join(model_dir, "host")},
        train_batch_size=FLAGS.batch_size,
        eval_batch_size=32,
        predict_batch_size=8,
    )
    estimator.train(make_input_fn(os.path.join(data_dir, "train-*"), True), max_steps=FLAGS.train_steps)
    metrics = estimator.evaluate(make_input_fn(os.path.join(data_dir, "eval*"), False), steps=2)
    predictions = estimator.predict(make_input_fn(os.path.join(data_dir, "eval*"), False))
    probabilities = [next(predictions)["probabilities"].tolist() for _ in range(8)]

    written = [
        value.tag
        for path in tf.gfile.Glob(os.path.join(model_dir, "host", "*tfevents*"))
        for event in tf.train.summary_iterator(path)
        for value in event.summary.value
    ]
    results = {
        "metrics": {name: float(value) for name, value in metrics.items()},
        "probabilities": probabilities,
        "moving_mean": estimator.get_variable_value("wave_net/batch_normalization/moving_mean").tolist(),
        "summaries": {tag: written.count(tag) for tag in sorted(set(written))},
    }
    print("results: " + json.dumps(results))


if __name__ == "__main__":
    tf.app.run()
