"""LoggerHook and LoggerListener: pass loggers the metrics of training and of evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.session import step_outputs
from estimator_train._engine.types import Session, SessionRunArgs, SessionRunContext, SessionRunValues
from estimator_train.hooks.evaluation_listener import EvaluationListener
from estimator_train.loggers import Logger

if TYPE_CHECKING:
    from estimator_train.estimator import Estimator  # loaded with the first Estimator, not the first hook

v1 = tf.compat.v1


class LoggerHook(tf.compat.v1.train.SessionRunHook):
    """Logs a Keras model's loss and metrics, averaged over the steps since the last log, and its learning rate.

    The average is of all steps, also where one call runs several. With a `CallbacksHook`, the metrics are aggregated
    from the start of the epoch instead. `LoggerListener` logs evaluations.

        >>> logger = et.loggers.CSVLogger("runs/oct2017")
        >>> hooks = [et.LoggerHook(logger, every_n_steps=100, steps_per_epoch=500)]
        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=10_000, hooks=hooks)

    Args:
      loggers: loggers from `estimator_train.loggers`, or your own.
      every_n_steps: global steps between logs; the end of training is logged, too.
      steps_per_epoch: global steps per epoch, from which the value `epoch` is computed; None leaves it out.
      first_step: global step from which epochs and logs count; see `CallbacksHook`.

    Raises ValueError if `every_n_steps` is not positive, and when training begins, if the Estimator has a model_fn.
    """

    takes_each_step = True

    def __init__(
        self, *loggers: Logger, every_n_steps: int, steps_per_epoch: int | None = None, first_step: int = 0
    ) -> None:
        if every_n_steps < 1:
            raise ValueError(f"Must specify every_n_steps >= 1, given: {every_n_steps}")
        self._loggers = loggers
        self._every_n_steps = every_n_steps
        self._steps_per_epoch = steps_per_epoch
        self._first_step = first_step

    def begin(self) -> None:
        graph = v1.get_default_graph()
        values = [value for value in graph.get_collection(step_outputs.MODEL_VALUES) if value.shape.rank == 0]
        if not values:
            raise ValueError("LoggerHook needs a Keras model, but this Estimator has a model_fn; use SummarySaverHook.")
        rate = step_outputs.find(graph, step_outputs.LEARNING_RATE)
        self._fetches = {
            "step": v1.train.get_global_step(),
            "values": {value.op.name: value for value in values},
            "rate": {} if rate is None else {"learning_rate": rate},
        }
        each_step = {name: step_outputs.find(graph, step_outputs.EACH_STEP + name) for name in self._fetches["values"]}
        self._fetches["each_step"] = {name: values for name, values in each_step.items() if values is not None}
        self._are_means = bool(graph.get_collection(step_outputs.RUN_OVER_EPOCHS))

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        self._logged_step = self._step = int(session.run(self._fetches["step"]))
        self._values = []

    def next_look(self, global_step: int) -> float:
        return (self._interval(global_step) + 1) * self._every_n_steps + self._first_step

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._step = int(run_values.results["step"]) + 1  # fetched with a step, it is the number before the update
        self._values += _of_each_step(run_values.results["values"], run_values.results["each_step"])
        self._rate = run_values.results["rate"]
        if self._interval(self._step) > self._interval(self._logged_step):
            self._log()

    def _interval(self, step: int) -> int:
        return (step - self._first_step) // self._every_n_steps

    def end(self, session: Session) -> None:
        if self._values:
            self._log()

    def _log(self) -> None:
        values = self._values[-1:] if self._are_means else self._values
        means = {name: float(np.mean([each[name] for each in values])) for name in values[0]}
        epoch = {}
        if self._steps_per_epoch:
            epoch["epoch"] = round((self._step - self._first_step) / self._steps_per_epoch, 4)
        rate = {name: float(value) for name, value in self._rate.items()}
        for logger in self._loggers:
            logger.log_metrics(self._step, epoch | means | rate)
        self._logged_step, self._values = self._step, []


class LoggerListener(EvaluationListener):
    """Logs the metrics of each evaluation; `LoggerHook` logs those of training.

        >>> logger = et.loggers.CSVLogger("runs/oct2017")
        >>> eval_spec = et.EvalSpec(eval_input_fn, steps=None, listeners=[et.LoggerListener(logger)])

    `loggers` are loggers from `estimator_train.loggers`, or your own.
    """

    def __init__(self, *loggers: Logger) -> None:
        self._loggers = loggers

    def after_evaluation(
        self, estimator: Estimator, checkpoint_path: str, eval_result: dict[str, Any], is_final: bool
    ) -> None:
        for logger in self._loggers:
            logger.log_evaluation(eval_result)


def _of_each_step(values: dict[str, np.ndarray], each_step: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Returns the values of the steps of a call, in order; of those that are not in `each_step`, the last one's."""
    steps = len(next(iter(each_step.values()), [None]))
    return [values | {name: column[step] for name, column in each_step.items()} for step in range(steps)]
