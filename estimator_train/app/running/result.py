"""The result of a training, and what is said of it at the end."""

import dataclasses
import math
from typing import Any

import click

from estimator_train.app.datasets.dataset import DEFAULT_STEPS
from estimator_train.app.errors import spelled
from estimator_train.app.metrics.class_metrics import digits
from estimator_train.app.report.diagnosis import diagnose, input_ceiling
from estimator_train.app.running.devices import visible_gpus
from estimator_train.app.running.messages import as_typed, metrics_line, on_terminal, timing_lines
from estimator_train.app.runs import advice, checkpoints
from estimator_train.app.runs.monitor import METRICS, Monitor

_WORTH_A_DIAGNOSIS_SECONDS = 10  # of steps


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a run."""

    checkpoint: str  # path prefix of the one with these metrics
    metrics: dict[str, Any]
    last_step: int  # of the last checkpoint
    kept: str | None  # the checkpoint that --keep-best keeps
    stopped_early: bool = False  # by --early-stopping, not by a callback


def say_result(result, run, timing, report, input_fn, say):
    """Prints how fast the training was, why it ended early, where the report is, and the metrics.

    `timing` is a `TimingHook.summary()`, `input_fn` that of training, and `say` prints a line.
    """
    training, step = run.training, result.last_step
    monitor = Monitor.of(training.monitor)
    say(timing_lines(timing, run.model_dir, step))
    if timing["seconds"] > _WORTH_A_DIAGNOSIS_SECONDS:
        say(on_terminal([diagnosis(timing, run.settings, training, run.data, input_fn)]))
    if result.stopped_early:
        fall = {"min": "fall", "max": "rise"}[monitor.direction]
        say(f"stopped at step {step}: the {monitor.metric} did not {fall} in {training.early_stopping} evaluations")
    if too_short := _too_short(run, result):
        say(on_terminal([too_short]))
    say(f"the report is {report}")
    if result.kept:
        say(_kept_line(run, result.kept, monitor.metric))
    checkpoint = result.kept or as_typed(run.model_dir, result.checkpoint)
    click.secho(metrics_line(checkpoint, result.metrics, unmonitored(run)), bold=True)


def _kept_line(run, checkpoint, metric):
    value = digits(checkpoints.metrics_of_best(checkpoint).get(metric))  # n/a if the file of metrics is damaged
    if run.validation_examples:
        value += f" on the {run.validation_examples} validation images"
    return (
        f"the best checkpoint is kept as {checkpoint}, with the {metric} {value}; evaluate, predict and export use it, "
        f"or the last one with {spelled('{checkpoint=latest}')}"
    )


def _too_short(run, result):
    """Says that a short run has not learned its classes yet; None if it has, or if it was not short."""
    counts, accuracy = run.data and run.data.class_counts(), result.metrics.get("accuracy")
    if not counts or accuracy is None or result.last_step >= DEFAULT_STEPS:
        return None
    by_guessing = max(counts["eval"].values()) / run.data.eval_examples
    if accuracy - by_guessing >= 1 - accuracy:
        return None
    said = (
        f"step {result.last_step} is too early to judge this model: its accuracy of {accuracy:.4f} is nearer to the "
        f"{by_guessing:.4f} of always answering one class than to 1"
    )
    if result.last_step < run.last_step:  # more epochs would be stopped, too
        return said
    if run.settings.phases:
        return spelled(f"{{0}}; give the {{phases}} more epochs, some {DEFAULT_STEPS} steps in all", said)
    epochs = math.ceil(DEFAULT_STEPS / run.steps_per_epoch)
    return spelled(f"{{0}}; give {{epochs={epochs}}}, some {DEFAULT_STEPS} steps", said)


def unmonitored(run):
    """Returns the metrics that evaluations add to the model's own, except the monitored one."""
    monitored = Monitor.of(run.training.monitor).metric
    return [name for name in METRICS[run.settings.task] if name != monitored]


def diagnosis(timing, settings, training, data, input_fn):
    """Says what limits training, from its `TimingHook.summary()`; see `report.diagnosis`."""
    ceiling = None
    if training.cache != "features":
        ceiling = input_ceiling(input_fn)
    gpus = visible_gpus(training)
    turned = advice.unfit_for(settings, training, data, gpus)
    if not gpus:
        turned.add("batch_size")  # a CPU is busy with a small batch, and fewer steps would learn less
    return diagnose(timing, ceiling, turned=turned)
