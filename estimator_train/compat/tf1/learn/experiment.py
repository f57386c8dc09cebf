"""tf.contrib.learn.Experiment over a tf.estimator.Estimator."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_train._engine.types import InputFn
from estimator_train.estimator import Estimator
from estimator_train.exporter import Exporter
from estimator_train.run_config import TaskType
from estimator_train.training import EvalSpec, TrainSpec, train_and_evaluate


class Experiment:
    """An Estimator with its input and its numbers of steps; `train_and_evaluate` is that of tf.estimator.

        experiment = tf.contrib.learn.Experiment(estimator, train_input_fn, eval_input_fn, train_steps=1000)
        metrics, exports = experiment.train_and_evaluate()

    `export_strategies` are exporters of tf.estimator, such as `make_export_strategy` returns. `eval_delay_secs` and
    `continuous_eval_throttle_secs` are the delays of a cluster's evaluator; without one, each checkpoint is evaluated,
    and the other arguments on how often to do so are ignored. Those that a `tf.estimator.Estimator` cannot serve,
    `eval_metrics` and `checkpoint_and_export`, are refused.
    """

    def __init__(
        self,
        estimator: Estimator,
        train_input_fn: InputFn,
        eval_input_fn: InputFn,
        eval_metrics: None = None,
        train_steps: int | None = None,
        eval_steps: int | None = 100,
        train_monitors: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        eval_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        local_eval_frequency: int | None = None,
        eval_delay_secs: int = 120,
        continuous_eval_throttle_secs: int = 60,
        min_eval_frequency: int | None = None,
        delay_workers_by_global_step: bool = False,
        export_strategies: Exporter | Iterable[Exporter] | None = None,
        train_steps_per_iteration: int | None = None,
        checkpoint_and_export: bool = False,
        saving_listeners: Iterable[tf.compat.v1.train.CheckpointSaverListener] | None = None,
        check_interval_secs: int = 5,
    ) -> None:
        _check(estimator, eval_metrics, checkpoint_and_export)
        is_evaluator = estimator.config.task_type == TaskType.EVALUATOR
        throttle_secs = continuous_eval_throttle_secs if is_evaluator else 0
        self._estimator = estimator
        self._train_spec = TrainSpec(train_input_fn, train_steps, train_monitors, saving_listeners=saving_listeners)
        self._eval_spec = EvalSpec(
            eval_input_fn, eval_steps, None, eval_hooks, export_strategies, eval_delay_secs, throttle_secs
        )

    @property
    def estimator(self) -> Estimator:
        return self._estimator

    @property
    def train_steps(self) -> int | None:
        return self._train_spec.max_steps

    @property
    def eval_steps(self) -> int | None:
        return self._eval_spec.steps

    def extend_train_hooks(self, additional_hooks: Iterable[tf.compat.v1.train.SessionRunHook]) -> None:
        """Adds hooks for training."""
        self._train_spec = self._train_spec._replace(hooks=(*self._train_spec.hooks, *additional_hooks))

    def train(self, delay_secs: float | None = None) -> Estimator:
        """Trains up to `train_steps` at once, and returns the Estimator; `delay_secs` is ignored."""
        return self._estimator.train(**self._train_spec._asdict())

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> dict[str, Any]:
        """Evaluates the last checkpoint at once, and returns the metrics; `delay_secs` is ignored."""
        spec = self._eval_spec
        return self._estimator.evaluate(spec.input_fn, spec.steps, spec.hooks, name=name)

    def train_and_evaluate(self) -> Any:
        """Returns what `tf.estimator.train_and_evaluate` does: (metrics, paths of exports), or None in a cluster."""
        return train_and_evaluate(self._estimator, self._train_spec, self._eval_spec)

    def continuous_train_and_eval(self, continuous_eval_predicate_fn: None = None) -> Any:
        """Does the same as `train_and_evaluate`; refuses a predicate."""
        if continuous_eval_predicate_fn is not None:
            raise ValueError(
                "continuous_eval_predicate_fn is not supported: stop by a hook in train_monitors, such as "
                "tf.estimator.experimental.stop_if_no_decrease_hook"
            )
        return self.train_and_evaluate()

    def test(self) -> dict[str, Any]:
        """Trains one step, evaluates one batch, and returns the metrics."""
        self._estimator.train(self._train_spec.input_fn, self._train_spec.hooks, steps=1)
        return self._estimator.evaluate(self._eval_spec.input_fn, 1, self._eval_spec.hooks, name="one_pass")


def _check(estimator, eval_metrics, checkpoint_and_export):
    """Raises ValueError where a `tf.estimator.Estimator` cannot do what an Experiment is asked for."""
    if not isinstance(estimator, Estimator):
        raise ValueError(f"`estimator` must be a `tf.estimator.Estimator`, given: {estimator!r}")
    if eval_metrics is not None:
        raise ValueError(
            "`eval_metrics` must be `None` with `tf.estimator.Estimator`. "
            "Use `eval_metric_ops` in `tf.estimator.EstimatorSpec` instead."
        )
    if checkpoint_and_export:
        raise ValueError(
            "checkpoint_and_export=True: pass a tf.estimator.LatestExporter in export_strategies, which exports after "
            "each evaluation"
        )
