"""Learning-rate range test: records the loss while the rate rises, plots it and suggests a rate."""

import contextlib
import math
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import StrPath
from estimator_train._engine.keras.adapter_choice import model_source
from estimator_train._engine.session import step_outputs
from estimator_train.app.models.compilation import compile_with_rising_rate
from estimator_train.app.models.optimization import TESTED_RATES
from estimator_train.app.report import plots
from estimator_train.hooks import SessionRunHook
from estimator_train.keras_estimator import model_to_estimator
from estimator_train.run_config import RunConfig

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
    config: RunConfig | None = None,
    *,
    lowest: float = TESTED_RATES[0],
    highest: float = TESTED_RATES[1],
    steps: int = 100,
    hooks: Sequence[SessionRunHook] = (),
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
    copy = model_source(model).copy(tf.distribute.get_strategy())
    compile_with_rising_rate(copy, lowest, highest, steps)
    hook, needed = _KeepLosses(), _LEAST_STEPS
    with tempfile.TemporaryDirectory(prefix="estimator_train-rates-") as directory:
        config = (config or RunConfig()).replace(model_dir=directory, steps_per_loop=1, save_checkpoints_steps=steps)
        estimator = model_to_estimator(copy, config=config)
        with contextlib.suppress(v1.train.NanLossDuringTrainingError):
            estimator.train(input_fn, hooks=[hook, *hooks], max_steps=steps)
            if not hook.has_diverged:  # a test that has is over, at any rate
                needed = max(needed, steps)
    losses, averages = hook.losses, hook.averages
    if len(losses) < needed:
        raise ValueError(f"a range test needs {needed} batches with a finite loss, but there were {len(losses)}")
    rates = [lowest * (highest / lowest) ** (step / (steps - 1)) for step in range(len(losses))]
    best = min(range(_LEAST_STEPS - 1, len(losses)), key=averages.__getitem__)
    return RangeTest(rates, losses, averages, rates[best] / 10)


class _KeepLosses(tf.compat.v1.train.SessionRunHook):
    """Records the loss of each step, and stops training once its average is far above the lowest."""

    def __init__(self):
        self.losses = []
        self.averages = []
        self.has_diverged = False
        self._sum = 0.0

    def begin(self):
        values = v1.get_default_graph().get_collection(step_outputs.MODEL_VALUES)
        self._loss = next((value for value in values if value.op.name == "loss"), values[0])

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        loss = float(run_values.results)
        self.has_diverged = not math.isfinite(loss)
        if not self.has_diverged:
            self.losses.append(loss)
            self._sum = _MOMENTUM * self._sum + (1 - _MOMENTUM) * loss
            self.averages.append(self._sum / (1 - _MOMENTUM ** len(self.losses)))
            counted = self.averages[_LEAST_STEPS - 1 :]
            self.has_diverged = bool(counted) and counted[-1] > _DIVERGED * min(counted)
        if self.has_diverged:
            run_context.request_stop()


def plot(test: RangeTest, path: StrPath) -> None:
    """Writes a PNG of loss over learning rate, with the moving average, where it was lowest, and the suggestion."""
    write_whole(path, plots.range_test(test))
