"""Calls of as many steps as hooks allow, the default: they give what single steps give, in fewer calls."""

import io
import math
import re
import signal
import time

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
import warm_python

import estimator_train as et
from estimator_train._engine.events import read_eval_metrics

STEPS = 40


class Calls(tf.compat.v1.train.SessionRunHook):
    """Counts calls, and needs none."""

    def __init__(self):
        self.count = 0

    def next_look(self, global_step):
        return math.inf

    def after_run(self, run_context, run_values):
        self.count += 1


def model_of(keras):
    keras.utils.set_random_seed(3)
    layers = [
        keras.layers.Dense(8, "relu", name="hidden"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(3, "softmax"),
    ]
    model = keras.Sequential([keras.Input((4,)), *layers])
    rate = keras.optimizers.schedules.ExponentialDecay(0.05, 10, 0.9)
    model.compile(keras.optimizers.Adam(rate), "categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
    return model


def observed(keras, directory, data, log_lines, replicas=None, with_callbacks=False, **settings):
    """Trains in two parts and evaluates; returns all that came of it, and the number of calls."""
    log_lines.clear()
    keras.utils.set_random_seed(1)
    config = et.RunConfig(
        directory, 5, train_distribute=replicas, log_step_count_steps=7, save_summary_steps=9, **settings
    )

    def examples():  # one dataset for both would draw the orders of training, which reads ahead, and evaluation in turn
        return tf.data.Dataset.from_tensor_slices(data).shuffle(96, seed=1)

    calls, table, history = Calls(), et.loggers.CSVLogger(directory), keras.callbacks.History()
    eval_spec = et.EvalSpec(
        lambda: examples().batch(8).take(3), None, listeners=[et.LoggerListener(table)], every_steps=10
    )
    estimator = et.model_to_estimator(model_of(keras), config=config)
    for last_step in (STEPS // 2 + 3, 10 * STEPS):  # checkpoints are not counted from the step it resumes at
        never = et.experimental.make_early_stopping_hook(estimator, lambda: False, None, 6)
        stop = et.experimental.stop_if_higher_hook(estimator, "loss", 0.0, None, STEPS - 5, None, 1)
        hooks = [calls, never, stop, et.ProgressHook(file=io.StringIO()), et.TimingHook(directory, every_n_steps=5)]
        hooks.append(et.LoggerHook(table, every_n_steps=4, steps_per_epoch=12))
        hooks += [et.CallbacksHook(history, steps_per_epoch=12)] * with_callbacks
        train_spec = et.TrainSpec(lambda: examples().repeat().batch(8), last_step, hooks)
        metrics, _ = et.train_and_evaluate(estimator, train_spec, eval_spec)
    assert metrics["global_step"] == STEPS  # the early stop

    names = [name for name in estimator.get_variable_names() if not name.startswith("_CHECKPOINTABLE")]
    weights = {name: estimator.get_variable_value(name) for name in names}
    written = [
        [(step, {tag: value for tag, value in values.items() if "sec" not in tag and "wait" not in tag})]
        for part in ("", "eval/")
        for step, values in read_eval_metrics(f"{directory}/{part}*.tfevents.*").items()
    ]
    events = read_eval_metrics(f"{directory}/*.tfevents.*")
    timing = [step for step, values in events.items() if "examples/sec" in values]
    lines = [re.sub(r" \([\d.]+ sec\)", "", line) for line in log_lines if line.startswith(("loss =", "Saving dict"))]
    with open(f"{directory}/metrics.csv") as file:
        rows = file.read()
    return weights, (written, timing, lines, rows, history.history), calls.count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keras", "replicas", "settings"),
    [
        (tf_keras, None, {}),
        (
            keras3,
            2,
            dict.fromkeys(("with_callbacks", "resume_input", "async_checkpoints"), True) | {"accumulate_steps": 2},
        ),
    ],
)
def test_they_give_what_single_steps_give(keras, replicas, settings, data, mirrored, log_lines, tmp_path):
    sides = [
        observed(keras, tmp_path / str(steps), data, log_lines, mirrored(replicas), steps_per_loop=steps, **settings)
        for steps in (1, "auto")
    ]
    (single, expected, _), (automatic, result, calls) = sides
    for mine, theirs in zip(result, expected, strict=True):
        assert mine == theirs
    for name, value in single.items():
        np.testing.assert_array_equal(automatic[name], value, name)
    assert calls < STEPS


def test_a_nan_ends_training_at_its_step_and_nothing_is_saved_after_it(data, tmp_path):
    batches = tf.data.Dataset.from_tensor_slices(data).batch(8).repeat().enumerate()
    with_nan = batches.map(lambda index, batch: (batch[0], tf.where(index == 6, math.nan, batch[1])))
    config = et.RunConfig(tmp_path, save_checkpoints_steps=20, log_step_count_steps=None, save_summary_steps=None)
    estimator = et.model_to_estimator(model_of(tf_keras), config=config)
    with pytest.raises(et.NanLossDuringTrainingError):
        estimator.train(lambda: with_nan, max_steps=30)
    assert estimator.latest_checkpoint().endswith("-0")


SLOW_STEPS = """
import pathlib
import time

import estimator_train as et
import tensorflow as tf
import tf_keras as keras

SECONDS = float(pathlib.Path("seconds").read_text())

def wait(features):
    with open("begun", "a") as file:
        file.write(".")
    time.sleep(SECONDS)
    return features

def build():
    waits = keras.layers.Lambda(lambda x: tf.ensure_shape(tf.numpy_function(wait, [x], tf.float32), [None, 1]))
    model = keras.Sequential([keras.Input([1]), waits, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model

def input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1]))).repeat()

if __name__ == "__main__":
    config = et.RunConfig("run", save_summary_steps=None, log_step_count_steps=None)  # nothing else ends a call
    et.model_to_estimator(build(), config=config).train(input_fn)
"""
COMMAND = ["--input-fn=own.py:input_fn", "--eval-input-fn=own.py:input_fn", "--model=own.py:build", "--model-dir=run"]
PROGRAMS = {"script": ["run", "own.py"], "command": [*COMMAND, "--max-steps=1000000", "--trust-run"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "number", "seconds", "code"),
    [
        ("script", signal.SIGINT, 1.5, 1),  # KeyboardInterrupt in a fork of a warm Python
        ("script", signal.SIGTERM, 0.001, 143),
        ("command", signal.SIGINT, 0.001, 130),
        ("command", signal.SIGTERM, 1.5, 143),
    ],
)
def test_a_signal_ends_them_within_a_second_or_a_step(program, number, seconds, code, tmp_path):
    (tmp_path / "own.py").write_text(SLOW_STEPS)
    (tmp_path / "seconds").write_text(str(seconds))
    begun, log = tmp_path / "begun", tmp_path / "log"
    process = warm_python.Popen(["-m", "estimator_train", *PROGRAMS[program]], cwd=tmp_path, stdout=log, stderr=log)

    def steps_begun():
        return begun.stat().st_size if begun.exists() else 0

    try:
        deadline = time.monotonic() + 120
        while steps_begun() < min(4 / seconds, 300):  # the first step has a call of its own
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        time.sleep(0.3 * seconds)
        sent = time.time()
        process.send_signal(number)
        assert process.wait(60) == code, log.read_text()
    finally:
        process.kill()
        process.wait()
    saved = tmp_path / "run" / f"model.ckpt-{steps_begun()}.index"
    assert saved.exists(), log.read_text()
    assert saved.stat().st_mtime - sent < max(seconds, 1)


@pytest.mark.slow
@pytest.mark.parametrize("keras", [tf_keras, keras3])
def test_models_that_create_variables_in_a_step_show_it_to_a_hook(keras, data, tmp_path):
    class OwnSteps(keras.Sequential):
        def train_step(self, *arguments):
            return super().train_step(*arguments)

        def test_step(self, *arguments):
            return super().test_step(*arguments)

    class Looking(tf.compat.v1.train.SessionRunHook):
        losses = []

        def before_run(self, run_context):
            return tf.compat.v1.train.SessionRunArgs("loss:0")

        def after_run(self, run_context, run_values):
            self.losses.append(float(run_values.results))

    def build():
        model = OwnSteps([keras.Input((4,)), keras.layers.Dense(3, "softmax")])
        model.compile("adam", "categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
        return model

    estimator = et.model_to_estimator(build, model_dir=str(tmp_path))
    without_weights = tf.data.Dataset.from_tensor_slices(data).batch(40).map(lambda x, y: (x, y, None))
    looking = Looking()
    estimator.train(lambda: without_weights, hooks=[looking])
    metrics = estimator.evaluate(lambda: without_weights)
    assert len(looking.losses) == metrics["global_step"] == 3 and 0 <= metrics["accuracy"] <= 1
