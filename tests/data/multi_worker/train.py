"""One process that trains a Keras model: python train.py MODEL_DIR SETTINGS, a JSON dict.

Settings: strategy ("multi_worker", "mirrored" or none), config (of RunConfig), max_steps, secs_a_step, stop_at (a step
at which worker 0 alone asks to stop), evaluate (whether by train_and_evaluate), batches (how many each worker has),
own_step (whether the model has a train_step of its own), devices (of a process).
"""

import json
import sys
import time

import numpy as np

import estimator_train as et
from estimator_train import distribution

import tensorflow as tf  # isort: skip  (estimator_train sets what TensorFlow reads when it is imported)

model_dir, settings = sys.argv[1], {"strategy": None, "config": {}, "max_steps": 8, **json.loads(sys.argv[2])}
tf.get_logger().setLevel("INFO")


def strategy():
    if settings["strategy"] == "multi_worker":
        if settings.get("devices", 1) > 1:
            train_on_cpus(settings["devices"])
        return distribution.multi_worker()
    if settings["strategy"] == "mirrored":
        return distribution.cpu_replicas(settings.get("devices", 2))
    return None


def train_on_cpus(count):
    """Makes TensorFlow's strategy train on as many CPUs of each worker, as it would on GPUs."""
    from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

    def devices(extended, cluster_resolver, worker_device):
        return tuple(f"{worker_device}/device:CPU:{index}" for index in range(count)), "CPU"

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    CollectiveAllReduceExtended._initialize_local_devices = devices


class OwnStep(tf.keras.Sequential):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            # A loss of the user's own is divided by the number of replicas by the user.
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2) / 2
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def build():
    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.Input([4]), *(tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.BatchNormalization())]
    model = (OwnStep if settings.get("own_step") else tf.keras.Sequential)([*layers, tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model


def input_fn(mode, input_context=None):
    """Batches of 8 of one order, each worker the next of them."""
    x = np.random.RandomState(0).normal(size=(256, 4)).astype("float32")
    batches = tf.data.Dataset.from_tensor_slices((x, x @ np.array([[1], [2], [3], [4]], "float32"))).batch(8)
    if mode != et.ModeKeys.TRAIN or input_context is None:
        return batches.repeat(None if mode == et.ModeKeys.TRAIN else 1)
    if "batches" in settings:
        return batches.take(settings["batches"][input_context.input_pipeline_id])
    return batches.repeat().shard(input_context.num_input_pipelines, input_context.input_pipeline_id)


class Watch(et.SessionRunHook):
    def before_run(self, run_context):
        return et.SessionRunArgs(tf.compat.v1.train.get_global_step())

    def after_run(self, run_context, run_values):
        time.sleep(settings.get("secs_a_step", 0))
        if run_values.results + 1 == settings.get("stop_at") and (config.task_type, config.task_id) == ("worker", 0):
            run_context.request_stop()


config = et.RunConfig(model_dir, train_distribute=strategy(), **settings["config"])
estimator = et.model_to_estimator(build(), config=config)
train_spec = et.TrainSpec(input_fn, max_steps=settings["max_steps"], hooks=[Watch()])
eval_spec = et.EvalSpec(input_fn, steps=None, start_delay_secs=0, throttle_secs=0)
if config.task_type == "evaluator" or settings.get("evaluate"):
    et.train_and_evaluate(estimator, train_spec, eval_spec)
else:
    estimator.train(input_fn, hooks=[Watch()], max_steps=settings["max_steps"])
