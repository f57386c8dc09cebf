"""Runs for the campaigns, of a small model on small data with the command and a script, and their outcomes."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import runpy
import sys
import traceback
from pathlib import Path
from typing import NamedTuple

import estimator_train  # noqa: F401, before TensorFlow

# isort: split
import numpy as np
import tensorflow as tf
import tf_keras as keras

from estimator_train.app.cli import main

STEPS = 20  # of a whole run, which saves every second one
PATHS = ("command", "keras", "async", "model_fn")

_SCRIPT = """
import sys

import numpy as np

import estimator_train as et
from estimator_train import input_fns

import tensorflow as tf
import tf_keras as keras

X = np.linspace(-1, 1, 30 * 4, dtype="float32").reshape(30, 4)
Y = X.sum(axis=1, keepdims=True)

train_input_fn = input_fns.arrays(X, Y, batch_size=4, num_epochs=None, shuffle=True, seed=1)
eval_input_fn = input_fns.arrays(X, Y)


def build():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(4, activation="relu", input_shape=(4,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def model_fn(features, labels, mode):
    v1 = tf.compat.v1
    kernel = v1.get_variable("kernel", [4, 1], initializer=v1.zeros_initializer())
    predictions = tf.matmul(features, kernel) + v1.get_variable("bias", [], initializer=v1.zeros_initializer())
    if mode == et.ModeKeys.PREDICT:
        return et.EstimatorSpec(mode, predictions)
    loss = v1.losses.mean_squared_error(labels, predictions)
    train_op = v1.train.AdamOptimizer().minimize(loss, global_step=v1.train.get_global_step())
    return et.EstimatorSpec(mode, predictions, loss, train_op)


def same_batches():
    # A model_fn's input starts anew: with one batch for all steps that changes nothing.
    return tf.data.Dataset.from_tensors((X, Y)).repeat()


def main(kind, model_dir, steps):
    every = {"save_checkpoints_steps": 2, "keep_checkpoint_max": 3}
    if kind == "model_fn":
        estimator = et.Estimator(model_fn, config=et.RunConfig(model_dir, **every))
    else:
        config = et.RunConfig(model_dir, resume_input=True, async_checkpoints=kind == "async", **every)
        estimator = et.model_to_estimator(build(), config=config)

    def receiver():
        x = tf.compat.v1.placeholder(tf.float32, [None, 4])
        return et.export.TensorServingInputReceiver(x, x)

    exporters = [et.LatestExporter("latest", receiver, exports_to_keep=2), et.BestExporter("best", receiver)]
    train_spec = et.TrainSpec(same_batches if kind == "model_fn" else train_input_fn, max_steps=steps)
    eval_spec = et.EvalSpec(eval_input_fn, None, exporters=exporters, start_delay_secs=0, throttle_secs=0)
    et.train_and_evaluate(estimator, train_spec, eval_spec)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


class Row(NamedTuple):
    """The outcome of a kind of fault; `fault` is None if the run kept its promises."""

    kind: str
    outcome: str
    fault: str | None


def arguments(path: str, folder: Path, model_dir: Path, steps: int | None = None) -> list[str]:
    """Returns Python's arguments that start or continue training in `model_dir`; `folder` has the script."""
    steps = steps or STEPS
    script = folder / "own.py"
    if not script.exists():
        script.write_text(_SCRIPT)
    if path != "command":
        return [str(script), path, str(model_dir), str(steps)]
    flags = {
        "--input-fn": f"{script}:train_input_fn",
        "--eval-input-fn": f"{script}:eval_input_fn",
        "--model": f"{script}:build",
        "--model-dir": model_dir,
        "--max-steps": steps,
        "--save-checkpoints-steps": 2,
        "--evaluate-every": 4,
    }
    return ["-m", "estimator_train", *(str(part) for flag in flags.items() for part in flag), "--keep-best", "--resume"]


def run_here(python_arguments: list[str]) -> tuple[int, str, str]:
    """Runs what `arguments` gave in this process; returns its exit code, standard output, and standard error."""
    keras.backend.clear_session()
    program, *rest = python_arguments
    if program == "-m":
        return call(rest[1:])
    return _captured(lambda: runpy.run_path(program)["main"](rest[0], rest[1], int(rest[2])))


def call(command: list[object]) -> tuple[int, str, str]:
    """Runs the command in this process; returns its exit code, standard output, and standard error with the log."""
    argv, sys.argv = sys.argv, ["estimator_train", *map(str, command)]
    try:
        return _captured(main)
    finally:
        sys.argv = argv


def _captured(function):
    output, error = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(error)
    logger, level = tf.get_logger(), tf.get_logger().level
    logger.addHandler(handler)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
            function()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except Exception:
        code = 1
        error.write(traceback.format_exc())
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return code, output.getvalue(), error.getvalue()


def values(model_dir: Path) -> dict[str, np.ndarray]:
    """Reads the variables of the newest checkpoint."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(model_dir)))
    names = [name for name in reader.get_variable_to_shape_map() if not re.search("save_counter|CHECKPOINTABLE", name)]
    return {name: reader.get_tensor(name) for name in names}


def differences(model_dir: Path, expected: dict[str, np.ndarray]) -> str | None:
    """Names the variables whose values in the newest checkpoint are not as expected."""
    found = values(model_dir)
    wrong = [name for name in expected.keys() | found if not np.array_equal(found.get(name), expected.get(name))]
    return f"{', '.join(sorted(wrong))} differ" if wrong else None


def kinds_of_files(model_dir: Path) -> set[str]:
    """Returns the paths of all files, with # for parts that differ between runs."""
    paths = [os.path.relpath(path, model_dir) for path in Path(model_dir).rglob("*")]
    return {re.sub(r"(tfevents)\..*|\d+", lambda match: match[1] or "#", path) for path in paths}
