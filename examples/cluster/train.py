"""Trains a model_fn on images, as a process of a TF_CONFIG cluster with parameter servers, or on its own.

python train.py --data-dir FOLDER --model-dir FOLDER --max-steps 1000
"""

import argparse

import estimator_train as et
from estimator_train import input_fns
from estimator_train.app import datasets

import tensorflow as tf  # isort: skip  (tf.compat.v1.layers exists only after importing estimator_train)

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    net = features
    for filters in (16, 32, 64):
        net = v1.layers.conv2d(net, filters, 3, strides=2, activation=tf.nn.relu)
    logits = v1.layers.dense(tf.reduce_mean(net, [1, 2]), 4)
    classes = tf.argmax(logits, 1)
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, predictions={"classes": classes})
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = v1.train.AdamOptimizer(1e-3).minimize(loss, v1.train.get_global_step())
    metrics = {"accuracy": v1.metrics.accuracy(labels, classes)}
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


parser = argparse.ArgumentParser()
parser.add_argument("--data-dir", required=True, help="shared directory; images are drawn into it if empty")
parser.add_argument("--model-dir", required=True, help="shared directory")
parser.add_argument("--max-steps", type=int, default=1000)
parser.add_argument("--service", help="grpc://host:port of a tf.data service that decodes the images")
args = parser.parse_args()

tf.get_logger().setLevel("INFO")
data = datasets.open_dataset("synthetic_oct", args.data_dir)
images = {"labels": data.class_names, "image_size": data.image_size, "one_hot": False, "service": args.service}
train_input_fn = input_fns.image_files(data.train.paths, shuffle=True, batch_size=32, **images)
eval_input_fn = input_fns.image_files(data.eval.paths, num_epochs=1, **images)

estimator = et.Estimator(model_fn, config=et.RunConfig(args.model_dir, save_checkpoints_secs=60))
train_spec = et.TrainSpec(train_input_fn, max_steps=args.max_steps)
eval_spec = et.EvalSpec(eval_input_fn, steps=None, start_delay_secs=0, throttle_secs=0)
et.train_and_evaluate(estimator, train_spec, eval_spec)
