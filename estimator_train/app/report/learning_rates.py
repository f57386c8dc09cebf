"""Learning-rate range test: records the loss while the rate rises, plots it and suggests a rate."""

import contextlib
import math
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.application import copy_of
from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import StrPath
from estimator_train.app.models.compilation import compile_with_rising_rate
from estimator_train.app.models.optimization import TESTED_RATES
from estimator_train.app.report import plots
from estimator_train.loggers import Logger

v1 = tf.compat.v1

_LEAST_STEPS = 10
_MOMENTUM = 0.9  # of the moving average of losses
_DIVERGED = 4  # times the lowest average means divergence


class RangeTest(NamedTuple):
    """The rate, the loss and its moving average at each step, and the suggested learning rate."""

    rates: list[float]
    losses: list[float]
    averages: list[float]
    suggestion: float


def find_learning_rate(
    model: keras.Model,
    input_fn: Callable[..., tf.data.Dataset],
    config: et.RunConfig | None = None,
    *,
    lowest: float = TESTED_RATES[0],
    highest: float = TESTED_RATES[1],
    steps: int = 100,
    hooks: Sequence[et.SessionRunHook] = (),
) -> RangeTest:
    """Trains a copy of a compiled Keras `model` with a learning rate that rises each step, until the loss diverges.

    Suggests a tenth of the rate at which the moving average of the loss was lowest. It counts from the tenth step on;
    before, it is that of few batches, and the first may be the easiest. The trained copy is discarded.

        test = find_learning_rate(model, train_input_fn)
        plot(test, "learning_rate.png")

    Source: Smith, "Cyclical Learning Rates for Training Neural Networks" (2015).

    Args:
      config: the RunConfig of the training, for its strategy, precision and seed.
      lowest, highest: the learning rates of the first and the last step.
      steps: number of steps; more steps give a smoother curve.
      hooks: more hooks of the training, such as one that shows its progress.

    Raises:
      ValueError: If there are fewer than 10 batches with a finite loss, the data ends before the test, or the model's
        optimizer is not one of `keras.optimizers`.
    """
    copy = copy_of(model)
    compile_with_rising_rate(copy, lowest, highest, steps)
    losses, needed = _Losses(), _LEAST_STEPS
    recording = [et.LoggerHook(losses, every_n_steps=1), _StopOnceDiverged(losses)]
    with tempfile.TemporaryDirectory(prefix="estimator_train-rates-") as directory:
        config = (config or et.RunConfig()).replace(model_dir=directory, steps_per_loop=1, save_checkpoints_steps=steps)
        estimator = et.model_to_estimator(copy, config=config)
        with contextlib.suppress(v1.train.NanLossDuringTrainingError):
            estimator.train(input_fn, hooks=[*recording, *hooks], max_steps=steps)
            if not losses.has_diverged:  # a test that has is over, at any rate
                needed = max(needed, steps)
    finite, averages = losses.finite, losses.averages
    if len(finite) < needed:
        raise ValueError(f"a range test needs {needed} batches with a finite loss, but there were {len(finite)}")
    rates = [lowest * (highest / lowest) ** (step / (steps - 1)) for step in range(len(finite))]
    best = min(range(_LEAST_STEPS - 1, len(finite)), key=averages.__getitem__)
    return RangeTest(rates, finite, averages, rates[best] / 10)


class _Losses(Logger):
    """Records the loss of each step, until its average is far above the lowest."""

    def __init__(self):
        self.finite = []
        self.averages = []
        self.has_diverged = False
        self._sum = 0.0

    def log_metrics(self, step, metrics):
        loss = metrics.get("loss", next(iter(metrics.values())))  # a model's own step may call it otherwise
        self.has_diverged = not math.isfinite(loss)
        if not self.has_diverged:
            self.finite.append(loss)
            self._sum = _MOMENTUM * self._sum + (1 - _MOMENTUM) * loss
            self.averages.append(self._sum / (1 - _MOMENTUM ** len(self.finite)))
            counted = self.averages[_LEAST_STEPS - 1 :]
            self.has_diverged = bool(counted) and counted[-1] > _DIVERGED * min(counted)


class _StopOnceDiverged(et.SessionRunHook):
    def __init__(self, losses):
        self._losses = losses

    def after_run(self, run_context, run_values):
        if self._losses.has_diverged:
            run_context.request_stop()


def plot(test: RangeTest, path: StrPath) -> None:
    """Writes a PNG of loss over learning rate, with the moving average, where it was lowest, and the suggestion."""
    write_whole(path, plots.range_test(test))
