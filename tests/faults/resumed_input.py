"""Training in two consecutive processes gives the losses and weights of training without interruption.

It uses inputs of every kind, shuffled with and without a seed, one and two replicas, Adam, and 12 or 5 + 7 steps.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import estimator_train as et  # before TensorFlow

# isort: split
import numpy as np
import tensorflow as tf
import tf_keras as keras

from estimator_train import distribution, input_fns
from estimator_train.app import datasets
from tests.faults.runs import Row
from tests.helpers import warm_python

NUMBER = 30  # of examples
STEPS, FIRST = 12, 5
CLASSES = ["cat", "dog"]
_ROOT = Path(__file__).parents[2]


class Case(NamedTuple):
    """An input by its name, whether its shuffle is given a seed, and on how many replicas the model trains."""

    name: str
    seed: int | None
    replicas: int


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Tries `count` of the cases, drawn with `seed`, in `folder`, or all if there are fewer."""
    folder = Path(folder).resolve()
    _write_images(folder)
    cases = [Case(*each) for each in itertools.product(INPUTS, (None, 3), (1, 2))]
    return [_try(case, folder) for case in random.Random(seed).sample(cases, min(count, len(cases)))]


def _try(case, folder):
    kind = f"{case.name}, {'without a seed' if case.seed is None else 'with a seed'}, {case.replicas} replicas"
    losses, weights = {}, {}
    for name, goes in (("one", [STEPS]), ("two", [FIRST, STEPS - FIRST])):
        model_dir = folder / kind.replace(" ", "-") / name
        losses[name] = [loss for steps in goes for loss in _train_in_process(case, folder, model_dir, steps)]
        path = tf.train.latest_checkpoint(str(model_dir))
        reader = tf.train.load_checkpoint(path)
        names = [key for key in reader.get_variable_to_shape_map() if "/.ATTRIBUTES/" in key]
        weights[name] = {key: reader.get_tensor(key) for key in names if "save_counter" not in key}
    if losses["one"] != losses["two"]:
        return Row(kind, "", f"losses differ: {losses}")
    differing = [key for key, value in weights["one"].items() if not np.array_equal(value, weights["two"][key])]
    if differing or weights["one"].keys() != weights["two"].keys():
        return Row(kind, "", f"{', '.join(differing)} differ")
    return Row(kind, f"{len(losses['one'])} losses and {len(weights['one'])} variables are the same", None)


def _train_in_process(case, folder, model_dir, steps):
    task = json.dumps([*case, str(folder), str(model_dir), steps])
    done = warm_python.run(["-m", "tests.faults.resumed_input", task], folder, cwd=_ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _write_images(folder):
    """Images of one pixel, in class folders and in a TFRecord file."""
    (folder / "labels.txt").write_text("\n".join(CLASSES))
    for side in ("train", "test"):
        with tf.io.TFRecordWriter(str(folder / f"{side}.tfrecord")) as records:
            for number in range(NUMBER):
                image = tf.io.encode_png(np.full((1, 1, 3), 8 * number, np.uint8)).numpy()
                path = folder / "images" / CLASSES[number % 2] / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(image)
                feature = {
                    "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number % 2])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                records.write(example.SerializeToString())


def _arrays(folder, seed):
    x = np.linspace(0, 1, NUMBER * 3, dtype="float32").reshape(NUMBER, 1, 1, 3)
    labels = np.eye(2, dtype="float32")[np.arange(NUMBER) % 2]
    return input_fns.arrays(x, labels, batch_size=4, num_epochs=None, shuffle=True, seed=seed)


def _image_files(folder, seed):
    pattern = str(folder / "images/*/*")
    return input_fns.image_files(pattern, CLASSES, (1, 1), True, batch_size=4, num_epochs=None, seed=seed)


def _generator(folder, seed):
    """Its order is its own: `seed` None has it in order."""

    def examples(epoch):
        order = range(NUMBER) if seed is None else np.random.default_rng([seed, epoch]).permutation(NUMBER)
        for number in order:
            yield np.full((1, 1, 3), number / NUMBER, np.float32), np.eye(2, dtype=np.float32)[number % 2]

    return input_fns.generator(examples, batch_size=4, num_epochs=None, elements_per_epoch=NUMBER)


def _tfrecord(folder, seed):
    data = datasets.open_dataset("tfrecord", str(folder))
    return data.train_input_fn(image_size=(1, 1), batch_size=4, num_epochs=None, seed=seed)


INPUTS: dict[str, Callable] = {
    "arrays": _arrays,
    "image_files": _image_files,
    "generator": _generator,
    "tfrecord": _tfrecord,
}


class _Losses(et.SessionRunHook):
    """Collects the loss of every fourth step; calls run all steps in between."""

    def __init__(self):
        self.values = []

    def next_look(self, global_step):
        return global_step + 4 - global_step % 4

    def before_run(self, run_context):
        return et.SessionRunArgs(["loss:0", tf.compat.v1.train.get_global_step()])

    def after_run(self, run_context, run_values):
        loss, before = run_values.results
        if (before + 1) % 4 == 0:
            self.values.append(float(loss))


def _train(name, seed, replicas, folder, model_dir, steps):
    """Trains for so many steps more in `model_dir`, and prints the losses."""
    strategy = distribution.cpu_replicas(replicas) if replicas > 1 else None
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.layers.Flatten(input_shape=(1, 1, 3)), keras.layers.Dense(2, "softmax")])
    model.compile("adam", "categorical_crossentropy")
    config = et.RunConfig(model_dir, train_distribute=strategy, resume_input=True)
    losses = _Losses()
    estimator = et.model_to_estimator(model, config=config)
    estimator.train(INPUTS[name](Path(folder), seed), hooks=[losses], steps=steps)
    print(json.dumps(losses.values))


if __name__ == "__main__":
    _train(*json.loads(sys.argv[1]))
