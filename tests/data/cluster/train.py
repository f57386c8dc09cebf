"""One task of a cluster that fits a linear model: python train.py MODEL_DIR MAX_STEPS SECONDS_A_STEP [CHIEFS_LAST_STEP]

Steps take no time once there is a file MODEL_DIR/hurry.
"""

import os
import sys
import time

import numpy as np
import tensorflow as tf

import estimator_train as et

v1 = tf.compat.v1


class Slow(et.SessionRunHook):
    def after_run(self, run_context, run_values):
        if not os.path.exists(os.path.join(sys.argv[1], "hurry")):
            time.sleep(float(sys.argv[3]))


def model_fn(features, labels, mode):
    w = v1.get_variable("w", [4], initializer=v1.zeros_initializer())
    b = v1.get_variable("b", [], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean((tf.linalg.matvec(features, w) + b - labels) ** 2)
    train_op = v1.train.GradientDescentOptimizer(0.02).minimize(loss, v1.train.get_global_step())
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(epochs=None):
    x = np.random.RandomState(0).normal(size=(256, 4)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x @ np.array([1, 2, 3, 4], "float32"))).repeat(epochs).batch(16)


tf.get_logger().setLevel("INFO")
config = et.RunConfig(sys.argv[1], save_checkpoints_steps=20, experimental_max_worker_delay_secs=0)
hooks = [Slow()]
if len(sys.argv) > 4 and config.is_chief:
    hooks.append(et.StopAtStepHook(last_step=int(sys.argv[4])))
train_spec = et.TrainSpec(input_fn, max_steps=int(sys.argv[2]), hooks=hooks)
eval_spec = et.EvalSpec(lambda: input_fn(1), steps=None, start_delay_secs=0, throttle_secs=0)
et.train_and_evaluate(et.Estimator(model_fn, config=config), train_spec, eval_spec)
