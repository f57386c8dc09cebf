"""LoggerHook, LoggerListener and LoggerExporter: what a training gives loggers."""

import csv
import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import Fetched

import estimator_train as et

STEPS = 6  # 96 examples in batches of 16


class Logged(et.loggers.Logger):
    def __init__(self):
        self.lines = []

    def log_metrics(self, step, metrics):
        self.lines.append((step, dict(metrics)))


@pytest.mark.slow
def test_a_line_has_the_means_of_its_steps_and_val_metrics_of_evaluations(classifier, data, batches, tmp_path):
    estimator = et.model_to_estimator(classifier(), model_dir=tmp_path / "run")
    every, table, losses = Logged(), et.loggers.CSVLogger(tmp_path / "run"), Fetched()
    hooks = [
        losses,
        et.LoggerHook(every, every_n_steps=4),
        et.LoggerHook(table, every_n_steps=STEPS, steps_per_epoch=STEPS),
    ]
    train_spec = et.TrainSpec(batches(data, 16, None), 2 * STEPS + 1, hooks)
    listeners = [et.LoggerListener(every, table)]
    eval_spec = et.EvalSpec(batches(data, 32), None, listeners=listeners, every_steps=STEPS)
    results, _ = et.train_and_evaluate(estimator, train_spec, eval_spec)

    training = [(step, line) for step, line in every.lines if "loss" in line]
    assert [step for step, _ in training] == [4, 8, 12, 13]
    np.testing.assert_allclose(
        [line["loss"] for _, line in training],
        [np.mean(losses.values[slice(*ends)]) for ends in [(0, 4), (4, 8), (8, 12), (12, 13)]],
        rtol=1e-6,
    )
    assert training[0][1].keys() == {"loss", "accuracy", "learning_rate"}
    assert [step for step, line in every.lines if "val_loss" in line] == [6, 12, 13]

    with open(tmp_path / "run" / "metrics.csv") as file:
        lines = list(csv.DictReader(file))
    assert [(line["step"], line["epoch"]) for line in lines] == [("6", "1.0"), ("12", "2.0"), ("13", "2.1667")]
    np.testing.assert_allclose(float(lines[1]["loss"]), np.mean(losses.values[6:12]), rtol=1e-6)
    assert float(lines[-1]["val_loss"]) == results["loss"] and all(line["val_accuracy"] for line in lines)


def test_the_exporter_logs_a_checkpoint_again_if_its_metrics_have_changed():
    logged = Logged()
    exporter = et.LoggerExporter(logged)
    for loss in (2.0, 2.0, 1.0, 1.0, math.nan, math.nan):
        metrics = {"loss": np.float32(loss), "counts": np.arange(2), "global_step": 4}
        exporter.export(None, "export", "model.ckpt-4", metrics, is_the_final_export=False)
    assert [line["val_loss"] for _, line in logged.lines] == [2, 1, pytest.approx(math.nan, nan_ok=True)]


def test_with_callbacks_a_line_has_the_values_of_its_epoch(classifier, data, batches, tmp_path, warnings):
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), model_dir=tmp_path / "run")
    history, logged = keras.callbacks.History(), Logged()
    hooks = [et.CallbacksHook(history, STEPS), et.LoggerHook(logged, every_n_steps=STEPS)]
    estimator.train(batches(data, 16, None), hooks=hooks, max_steps=2 * STEPS)
    assert [line["loss"] for _, line in logged.lines] == pytest.approx(history.history["loss"], rel=1e-6)
    assert not warnings  # the graph is saved with all that it holds


def test_a_call_of_several_steps_may_pass_the_end_of_an_epoch(classifier, data, batches, tmp_path):
    config = et.RunConfig(tmp_path / "run", steps_per_loop=4, save_checkpoints_steps=100)
    logged = Logged()
    estimator = et.model_to_estimator(classifier("sgd", metrics=()), config=config)
    estimator.train(batches(data, 16, None), hooks=[et.LoggerHook(logged, every_n_steps=STEPS)], max_steps=14)
    assert [step for step, _ in logged.lines] == [9, 13, 14]  # after calls of 1, 4, 4, 4 and 1 steps
    hook = et.LoggerHook(logged, every_n_steps=3, steps_per_epoch=3, first_step=8)  # 2 epochs are done at step 14
    estimator.train(batches(data, 16, None), hooks=[hook], max_steps=20)
    assert [(step, line["epoch"]) for step, line in logged.lines[3:]] == [(19, 3.6667), (20, 4.0)]


def test_a_model_fn_and_a_wrong_interval_are_refused(data, batches, tmp_path):
    with pytest.raises(ValueError, match="Must specify every_n_steps >= 1, given: 0"):
        et.LoggerHook(Logged(), every_n_steps=0)
    columns = [tf.feature_column.numeric_column("x", (4,))]
    estimator = et.LinearRegressor(columns, model_dir=tmp_path / "run")
    x, y = data
    with pytest.raises(ValueError, match="LoggerHook needs a Keras model, but this Estimator has a model_fn"):
        estimator.train(
            batches(({"x": x}, y[:, :1]), 16), hooks=[et.LoggerHook(Logged(), every_n_steps=1)], max_steps=1
        )
