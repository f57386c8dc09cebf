"""The process of one line: trains, and prints the measurements as a line of JSON.

It runs the steps three times: to warm up, to measure, and under TensorFlow's profiler, which slows them down.
"""

import functools
import json
import os
import sys
import tempfile
import time
from typing import NamedTuple

import estimator_train as et  # before TensorFlow, so that tf.keras is tf_keras

# isort: split
import tensorflow as tf
import tf_keras as keras

from benchmarks.gpu import machine
from benchmarks.gpu.from_memory import FromMemory
from benchmarks.gpu.lines import MOBILENET, VGG16, Training
from estimator_train import distribution, input_fns
from estimator_train.app import datasets, models
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.models.classifier import freeze_backbone
from estimator_train.memory_estimate import estimate
from examples import cats_vs_dogs


class Work(NamedTuple):
    """The work of both sides. `build()` returns the compiled model; sizes are in images per replica and in pixels."""

    build: functools.partial
    one_hot: bool
    data: Dataset
    image_size: tuple[int, int]
    batch_size: int
    steps: int


def vgg16(image_size, num_classes):
    """The flagship's model: VGG16, trained from its last block on, with random weights."""
    model = models.build_model("vgg16", image_size=image_size, num_classes=num_classes, weights="none")
    freeze_backbone(model, "block4_pool")
    return model


def mobilenet(image_size, num_classes):
    side, _ = image_size
    return cats_vs_dogs.build_model(side, num_classes)


# The function that builds each, and whether its labels are one-hot.
_MODELS = {VGG16: (vgg16, True), MOBILENET: (mobilenet, False)}


class Clock:
    """Times the second third of the steps, reads their memory use, and profiles the last third."""

    def __init__(self, devices, profile):
        self._devices, self._profile = devices, profile

    def third_ended(self, number):
        if number == 1:
            self._begin = time.perf_counter()
        elif number == 2:
            self.seconds = time.perf_counter() - self._begin
            self.peak_bytes = machine.peak_bytes(self._devices)
            self.taken_bytes = machine.taken_bytes(self._devices)
            tf.profiler.experimental.start(self._profile, tf.profiler.experimental.ProfilerOptions(host_tracer_level=0))
        else:
            tf.profiler.experimental.stop()


def measure(training, devices, data_dir, sizes):
    """Runs the `Training` and returns a dict of numbers, with None for those that cannot be measured on the devices.

    Args:
      devices: {"kind": "gpu" or "cpu", "count": number}.
      data_dir: directory of class directories.
      sizes: {"image_size": (height, width), "batch_size": per replica, "steps": per third}.
    """
    data = datasets.open_dataset("images", data_dir)
    if training.side == "torch":
        from benchmarks.gpu.pytorch import examples_per_second

        return {"examples_per_second": examples_per_second(data.train, **sizes)}
    kind, count = devices["kind"], devices["count"]
    strategy = _strategy(kind, count, training.all_reduce)
    build, one_hot = _MODELS[training.model]
    build = functools.partial(build, tuple(sizes["image_size"]), len(data.class_names))
    work = Work(build, one_hot, data, **sizes)
    with tempfile.TemporaryDirectory() as profile:
        clock = Clock([f"{kind.upper()}:{index}" for index in range(count)], profile)
        train = {"ours": _train, "fit": _fit, "step": _step_alone}[training.side]
        own = train(work, training, strategy, clock)
        idle_share = machine.idle_share(profile)
    return own | {
        "examples_per_second": work.steps * work.batch_size * count / clock.seconds,
        "idle_share": idle_share,
        "peak_bytes": clock.peak_bytes,
        "taken_bytes": clock.taken_bytes,
    }


def _strategy(kind, count, all_reduce):
    if kind == "gpu":
        return distribution.gpus(count, all_reduce=all_reduce)
    if count > 1:
        return distribution.cpu_replicas(count, all_reduce=all_reduce)
    return tf.distribute.get_strategy()  # XLA compiles a MirroredStrategy's step only on GPUs


def _train(work, training, strategy, clock):
    with tf.device("CPU:0"):  # so that only the Estimator's copy is on the GPUs
        model = work.build()
    timing = et.TimingHook()
    thirds = _Thirds(timing, work.steps, clock)
    with tempfile.TemporaryDirectory() as model_dir:
        config = et.RunConfig(
            model_dir,
            train_distribute=strategy,
            save_checkpoints_secs=None,  # fit writes neither checkpoints nor events
            save_summary_steps=None,
            log_step_count_steps=None,
            **training.settings,
        )
        estimator = et.model_to_estimator(model, config=config)
        estimator.train(_input_fn(work, training.images), hooks=[timing, thirds], steps=3 * work.steps)
    is_plain = training.images == "files" and not training.settings
    return {
        "input_wait_share": thirds.input_seconds / clock.seconds,
        "estimated_bytes": estimate(model, work.batch_size)[0].total if is_plain else None,
    }


class _Thirds(et.SessionRunHook):
    """Tells the clock when a third has ended. The GPUs are done by then, because the loss of its last step is read."""

    def __init__(self, timing, steps, clock):
        self._timing, self._steps, self._clock = timing, steps, clock
        self._waited = []

    def next_look(self, global_step):
        return global_step + self._steps - global_step % self._steps

    def after_run(self, run_context, run_values):
        thirds, rest = divmod(len(self._timing.times), self._steps)
        if not rest:
            self._waited.append(self._timing.summary()["input_wait_seconds"])
            self._clock.third_ended(thirds)

    @property
    def input_seconds(self):
        """Returns the seconds that the second third waited for input."""
        first, second, _ = self._waited
        return second - first


def _input_fn(work, images):
    if images not in ("files", "features"):
        return FromMemory(images, work.batch_size, work.image_size, len(work.data.class_names))
    of_files = functools.partial(
        input_fns.image_files,
        work.data.train.paths,
        work.data.class_names,
        work.image_size,
        batch_size=work.batch_size,
        one_hot=work.one_hot,
    )
    if images == "files":
        return of_files(shuffle=True)
    return input_fns.frozen_features(of_files(num_epochs=1), work.batch_size, shuffle=True)


def _fit(work, training, strategy, clock):
    class Thirds(keras.callbacks.Callback):
        """Uses epochs, because a callback per batch would make fit wait for the values of every step."""

        def on_epoch_end(self, epoch, logs=None):
            clock.third_ended(epoch + 1)

    precision = training.settings.get("mixed_precision")
    keras.mixed_precision.set_global_policy(f"mixed_{precision}" if precision else "float32")
    with strategy.scope():
        model = work.build()
    model.jit_compile = training.settings.get("jit_compile", False)
    batches = _guides_batches(work, work.batch_size * strategy.num_replicas_in_sync)
    model.fit(batches, epochs=3, steps_per_epoch=work.steps, callbacks=[Thirds()], verbose=0)
    return {}


def _step_alone(work, training, strategy, clock):
    """Runs Keras' compiled step as often as the others for one batch on the device, which no loop can be ahead of."""
    model = work.build()
    batch = tf.nest.map_structure(tf.identity, next(iter(_guides_batches(work, work.batch_size))))
    step = tf.function(model.train_step, jit_compile=training.settings.get("jit_compile", False))
    for third in (1, 2, 3):
        for _ in range(work.steps):
            logs = step(batch)
        logs["loss"].numpy()
        clock.third_ended(third)
    return {}


def _guides_batches(work, batch_size):
    """Returns endless batches of the image files, as in TensorFlow's guide to tf.data."""

    def load(path):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), work.image_size)
        one_hot = tf.cast(tf.equal(tf.strings.split(path, os.sep)[-2], work.data.class_names), tf.float32)
        return image, one_hot if work.one_hot else tf.argmax(one_hot)

    paths = work.data.train.paths
    files = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).repeat()
    return files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(tf.data.AUTOTUNE)


if __name__ == "__main__":
    training, *others = json.loads(sys.argv[1])
    print(json.dumps(measure(Training(**training), *others)))
