"""Counts the memory, threads and open files that cycles of train, evaluate and predict leave behind.

Each kind runs in a separate process. The slope is fitted to the resident memory after each cycle, once the allocator
and TensorFlow's caches have settled.
"""

from __future__ import annotations

import gc
import json
import math
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import estimator_train as et  # before TensorFlow

# isort: split
import numpy as np
import tensorflow as tf
import tf_keras as keras

from tests.faults.runs import Row
from tests.helpers import warm_python

SETTLED = 50  # cycles
KB_A_CYCLE = 10
KINDS = ("keras", "model_fn", "new estimators")
PER_ESTIMATOR = 2  # threads and files, those of the writers of events in model_dir and in eval, as in tf.estimator
_ROOT = Path(__file__).parents[2]
_PAGE = resource.getpagesize()


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Runs `count` cycles of each kind; memory is judged if they are at least twice as many as it takes to settle."""
    return [_try(kind, count, Path(folder)) for kind in KINDS]


def _try(kind, count, folder):
    done = warm_python.run(["-m", "tests.faults.cycles", kind, str(count)], folder, timeout=7200, cwd=_ROOT)
    assert done.returncode == 0, done.stderr
    samples = np.array(json.loads(done.stdout.splitlines()[-1]))[min(SETTLED, count // 2) :]
    memory, threads, files = samples.T
    slope = np.polyfit(np.arange(len(memory)), memory, 1)[0] / 1000
    makes_new = kind == "new estimators"
    bound = PER_ESTIMATOR * (len(memory) - 1) if makes_new else 0
    grown = [name for name, values in (("threads", threads), ("files", files)) if values[-1] - values[0] > bound]
    fault = f"{', '.join(grown)} grow" if grown else None
    if count >= 2 * SETTLED and slope > KB_A_CYCLE and not makes_new:
        fault = f"memory grows by {slope:.1f} kB a cycle"
    outcome = f"{slope:+.1f} kB a cycle, {threads[-1] - threads[0]:+.0f} threads, {files[-1] - files[0]:+.0f} files"
    return Row(kind, outcome, fault)


def _sample(threads):
    """Returns (bytes, threads, open files), once there are no more `threads`, or after two seconds."""
    gc.collect()
    end = time.monotonic() + 2
    while len(os.listdir("/proc/self/task")) > threads and time.monotonic() < end:
        time.sleep(0.1)  # an iterator is being deleted in the background
    with open("/proc/self/statm") as file:
        memory = int(file.read().split()[1]) * _PAGE
    return memory, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def _input_fn():
    x = np.linspace(-1, 1, 16 * 4, dtype="float32").reshape(16, 4)
    return tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).batch(8)


def _keras_estimator(model_dir):
    model = keras.Sequential([keras.layers.Dense(4, activation="relu", input_shape=(4,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return et.model_to_estimator(model, config=et.RunConfig(model_dir, keep_checkpoint_max=2))


def _model_fn(features, labels, mode):
    v1 = tf.compat.v1
    predictions = v1.layers.dense(features, 1)
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, predictions={"y": predictions})
    loss = v1.losses.mean_squared_error(labels, predictions)
    train_op = v1.train.AdamOptimizer().minimize(loss, global_step=v1.train.get_global_step())
    return et.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _graph_estimator(model_dir):
    return et.Estimator(_model_fn, config=et.RunConfig(model_dir, keep_checkpoint_max=2))


def _cycle(estimator):
    estimator.train(_input_fn)
    estimator.evaluate(_input_fn)
    assert len(list(estimator.predict(_input_fn))) == 16


def _cycles(kind, count):
    """Prints (bytes, threads, open files) after each cycle."""
    samples, threads = [], math.inf
    with tempfile.TemporaryDirectory() as folder:
        make = _graph_estimator if kind == "model_fn" else _keras_estimator
        estimator = make(os.path.join(folder, "run"))
        for number in range(count):
            if kind == "new estimators":
                keras.backend.clear_session()
                estimator = make(os.path.join(folder, f"run{number}"))
            _cycle(estimator)
            samples.append(_sample(threads))
            if kind != "new estimators":  # each of which has threads of its own
                threads = samples[-1][1]
    print(json.dumps(samples))


if __name__ == "__main__":
    _cycles(sys.argv[1], int(sys.argv[2]))
