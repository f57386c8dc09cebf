"""The work of `estimator_train train`: from a `Run` to checkpoints, evaluations and run.json."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import tensorflow as tf
import tqdm

from estimator_train import distribution
from estimator_train._engine import checkpoints
from estimator_train._engine.distribution import synchronous
from estimator_train._engine.host.paths import as_path
from estimator_train._engine.host.training_lock import training_lock
from estimator_train._engine.session.full_disk import explaining_full_disk
from estimator_train.app.cli.directories import run_file
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.messages import as_typed, metrics_line, on_terminal, stopped_line, timing_lines
from estimator_train.app.cli.monitor import CLASS_METRICS, Monitor
from estimator_train.app.cli.run.build import (
    DeletedModelDirError,
    build_estimator,
    build_input_fns,
    local_strategy,
    run_errors,
    set_verbosity,
)
from estimator_train.app.cli.run.devices import name_idle_gpus
from estimator_train.app.cli.run.evaluation import CollectPredictions
from estimator_train.app.cli.run.provenance import provenance
from estimator_train.app.cli.run.tracking import callback_hooks, log_files, logger_hooks, opened_loggers
from estimator_train.app.cli.run_file import save_run
from estimator_train.app.cli.settings import Settings
from estimator_train.app.cli.signals import StopEvaluation, StopOnSignal, Stopped
from estimator_train.app.report.diagnosis import diagnose, input_ceiling
from estimator_train.estimator import Estimator
from estimator_train.exporter import BestCheckpointExporter, Exporter, LoggerExporter, compare_by
from estimator_train.hooks import ProgressHook, TimingHook
from estimator_train.hooks.early_stopping import (
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from estimator_train.run_config import RunConfig
from estimator_train.training import EvalSpec, TrainSpec, train_and_evaluate

if TYPE_CHECKING:
    from estimator_train.app.cli.commands.dataset_run import Run

_WORTH_A_DIAGNOSIS_SECONDS = 10  # of steps


@dataclasses.dataclass(frozen=True)
class _Part:
    """The whole training, or one of its phases: ends at `last_step`."""

    settings: Settings
    estimator: Estimator
    last_step: int | None


@dataclasses.dataclass(frozen=True)
class _Job:
    """A run that is ready to be trained.

    Attributes:
      parts: those that are not finished, or the last one.
      every: steps between summaries.
      say: prints a line, unless this process has nothing to say.
    """

    run: Run
    parts: list[_Part]
    input_fns: tuple[Callable[..., Any], Callable[..., Any]]
    recorder: _Recorder
    strategy: tf.distribute.Strategy | None
    every: int
    say: Callable[[str], None]


def run_training(run: Run) -> int:
    """Trains in the directory of the run up to its last step, and evaluates. Returns the exit code.

    In a cluster, the evaluator evaluates during training and the chief at the end.
    """
    job = _prepare(run)
    if run.task.is_evaluator:
        with run_errors():
            _train_and_evaluate(job, job.parts[0].estimator, run.last_step, eval_hooks=[job.recorder.examples])
        return 0
    # To callbacks, each part is a separate training.
    callbacks = [callback_hooks(run.training, run.steps_per_epoch) for _ in job.parts]
    say_stopped = functools.partial(_say_stopped, job) if run.task.is_chief else _say_nothing
    stop = StopOnSignal(job.strategy, say_stopped)
    timing = TimingHook(run.model_dir, every_n_steps=job.every)
    metrics = files = None
    with (
        _without_line_of_plan(),
        run_errors(),
        contextlib.suppress(Stopped),
        stop,
        _claimed(run),
        _loggers(run) as loggers,
    ):
        if run.task.is_chief:
            _save_run_file(run, job.strategy)
        hooks = [timing, *_hooks_of(job, loggers)] if run.task.is_chief else []
        metrics = _train(job, stop, hooks, callbacks, loggers)
        with _ending_together(job.strategy):
            if run.task.is_chief:
                metrics = metrics or _evaluate(job, stop, loggers)
                files = _write_report(job, loggers)
    if stop.received:
        say_stopped(stop.received)
        return 128 + stop.received
    if metrics is not None:
        _say_result(job, metrics, timing.summary(), *files)
    return 0


def _prepare(run):
    """Builds all parts before training, so that layers that cannot be frozen are found now, not after hours."""
    is_quiet = set_verbosity(run.verbosity)
    every = min(100, max(1, (run.last_step or 10_000) // 100))  # gives short runs a curve, too
    with one_line_errors():
        strategy = _strategy(run)
        config = _run_config(run, strategy, every)
    recorder = _Recorder(run, _say_nothing if is_quiet else click.echo)
    parts = [
        _Part(settings, recorder.examples.attach(build_estimator(settings, config, training, last_step)), last_step)
        for settings, training, last_step in _unfinished_parts(run)
    ]
    input_fns = build_input_fns(run.settings, run.data, run.training)
    say = click.echo if run.task.is_chief and not is_quiet else _say_nothing
    return _Job(run, parts, input_fns, recorder, strategy, every, say)


def _strategy(run):
    if run.task.is_evaluator:
        distribution.let_memory_grow()  # it evaluates on one device, which it may share with a worker
        return None
    if not (run.training.gpus or run.training.replicas) and run.verbosity != "quiet":
        name_idle_gpus()
    if run.task.is_alone:
        return local_strategy(run.training.gpus, run.training.replicas, run.training.all_reduce)
    gpus = run.training.gpus or min(1, len(tf.config.list_physical_devices("GPU")))
    return distribution.multi_worker(gpus, all_reduce=run.training.all_reduce)


def _run_config(run, strategy, every):
    """Returns the RunConfig for training, with summaries every `every` steps."""
    steps = run.training.save_checkpoints_steps
    return RunConfig(
        model_dir=run.model_dir,
        tf_random_seed=run.settings.seed,
        train_distribute=strategy,
        save_checkpoints_steps=steps,
        save_checkpoints_secs=None if steps else 600,
        save_summary_steps=every,
        resume_input=True,
        **run.training.config_arguments,
    )


def _unfinished_parts(run):
    """Returns (settings, training, last step) of each unfinished part of the training, or of the last part."""
    phases = run.settings.in_phases()
    if not phases:
        return [(run.settings, run.training, run.last_step)]
    ends = itertools.accumulate(phase.epochs * run.steps_per_epoch for _, phase in phases)
    parts = [
        (settings, dataclasses.replace(run.training, learning_rate=phase.learning_rate), end)
        for (settings, phase), end in zip(phases, ends, strict=True)
    ]
    with run_errors():
        checkpoint = checkpoints.latest_intact(run.model_dir)
    step = checkpoints.read_global_step(checkpoint) if checkpoint else 0
    return [part for part in parts if part[-1] > step] or parts[-1:]


@contextlib.contextmanager
def _claimed(run):
    """Locks the directory of the run, and explains in one line if its disk fills up or it is deleted."""
    if not run.task.is_chief:
        yield
        return
    path = run_file(run.model_dir)
    with explaining_full_disk(run.model_dir), training_lock(run.model_dir):
        try:
            yield
        except (OSError, ValueError, tf.errors.NotFoundError) as error:  # missing files can raise ValueError, too
            if path.exists():
                raise
            raise DeletedModelDirError(run.model_dir) from error
    if not path.exists():
        raise DeletedModelDirError(run.model_dir)


@contextlib.contextmanager
def _ending_together(strategy):
    """Lets workers wait for the chief's work in the block; TensorFlow calls a task crashed that ends 10 s earlier."""
    try:
        yield
    finally:
        if synchronous.spans_workers(strategy):
            synchronous.summing(strategy)(0)


@contextlib.contextmanager
def _without_line_of_plan():
    """Hides the library's line on the examples that a step takes, which the plan has shown."""

    def is_news(record):
        return not record.getMessage().startswith("Each step takes")

    logger = tf.get_logger()
    logger.addFilter(is_news)
    try:
        yield
    finally:
        logger.removeFilter(is_news)


def _loggers(run):
    return opened_loggers(run) if run.task.is_chief else contextlib.nullcontext([])


def _save_run_file(run, strategy):
    data = run.data
    counts = data and {"train": data.train_examples, "eval": data.eval_examples, "classes": data.class_counts()}
    with one_line_errors(), explaining_full_disk(run.model_dir):
        save_run(
            run.model_dir,
            dataclasses.asdict(run.settings),
            training=dataclasses.asdict(run.training),
            last_step=run.last_step,
            data=counts,
            **provenance(strategy),
        )


def _hooks_of(job, loggers):
    """Returns the hooks that show and log the progress of the chief's training."""
    progress = [] if job.run.verbosity == "quiet" else [ProgressHook()]
    return progress + logger_hooks(loggers, job.run, job.every)


def _train(job, stop, hooks, callbacks, loggers):
    """Trains all parts; returns the metrics of the last checkpoint if the training has evaluated it."""
    run, metrics = job.run, None
    for part, own_hooks in zip(job.parts, callbacks, strict=True):
        stop.check()
        if run.settings.phases:
            job.say(f"phase freeze={part.settings.freeze}, to step {part.last_step}")
        part_hooks = [*hooks, *own_hooks, stop]
        if run.training.evaluate_every or run.task.cluster:  # there may be an evaluator
            eval_hooks = [StopEvaluation(stop), job.recorder.examples]
            metrics = _train_and_evaluate(job, part.estimator, part.last_step, part_hooks, eval_hooks, loggers)
        else:
            part.estimator.train(job.input_fns[0], hooks=part_hooks, max_steps=part.last_step)
    return metrics


def _train_and_evaluate(job, estimator, last_step, hooks=(), eval_hooks=(), loggers=()):
    """Trains and prints evaluations; returns the metrics of the last checkpoint, or None in a cluster."""
    training, (train_input_fn, eval_input_fn) = job.run.training, job.input_fns
    monitor = Monitor.of(training.monitor)
    if training.early_stopping or training.keep_best:  # without patience, the hook only checks that the metric exists
        make_hook = stop_if_no_decrease_hook if monitor.direction == "min" else stop_if_no_increase_hook
        patience = training.early_stopping * training.evaluate_every if training.early_stopping else math.inf
        # Checked after every step, it stops right after the evaluation, not one interval later.
        hooks = [*hooks, make_hook(estimator, monitor.metric, patience, run_every_secs=None, run_every_steps=1)]
    best = [BestCheckpointExporter(compare_fn=compare_by(*monitor))] if training.keep_best else []
    eval_spec = EvalSpec(
        eval_input_fn,
        steps=None,
        hooks=eval_hooks,
        exporters=[job.recorder, LoggerExporter(*loggers), *best],
        start_delay_secs=0,
        throttle_secs=0,
        every_steps=training.evaluate_every,
    )
    metrics = train_and_evaluate(estimator, TrainSpec(train_input_fn, last_step, hooks), eval_spec)
    return metrics and metrics[0]


def _evaluate(job, stop, loggers):
    """Evaluates the last checkpoint, which training has not, and returns the metrics."""
    estimator = job.parts[-1].estimator
    stop.check()
    job.say(f"evaluating {as_typed(job.run.model_dir, estimator.latest_checkpoint())}")
    metrics = estimator.evaluate(job.input_fns[1], hooks=[StopEvaluation(stop), job.recorder.examples])
    job.recorder.add(estimator.latest_checkpoint(), metrics)
    for logger in loggers:
        logger.log_evaluation(metrics)
    return metrics


def _write_report(job, loggers):
    """Writes the report and logs the files of the run. Returns the report and the best checkpoint that is kept."""
    model_dir = job.run.model_dir
    report = job.recorder.reporter.write()
    best = tf.train.latest_checkpoint(os.path.join(model_dir, "export", BestCheckpointExporter().name))
    log_files(loggers, [run_file(model_dir), report, best and os.path.dirname(best)])
    return report, best


def _say_stopped(job, number):
    """Says that a signal has ended the training, and how to continue it."""
    model_dir = job.run.model_dir
    if run_file(model_dir).exists():
        checkpoint = as_typed(model_dir, job.parts[-1].estimator.latest_checkpoint())
        click.echo(stopped_line(number, checkpoint, model_dir), err=True)
    else:
        click.echo(f"estimator_train: stopped by {number.name} before the training began", err=True)


def _say_result(job, metrics, timing, report, best):
    """Prints how fast the training was, why it ended early, where the report is, and the metrics."""
    run, training, step = job.run, job.run.training, metrics["global_step"]
    monitor = Monitor.of(training.monitor)
    job.say(timing_lines(timing, run.model_dir, step))
    if timing["seconds"] > _WORTH_A_DIAGNOSIS_SECONDS:
        job.say(on_terminal([diagnosis(timing, training, job.input_fns[0])]))
    if training.early_stopping and run.data and step < run.last_step:  # a dataset is endless, so it stopped early
        fall = "fall" if monitor.direction == "min" else "rise"
        job.say(f"stopped at step {step}: the {monitor.metric} did not {fall} in {training.early_stopping} evaluations")
    job.say(f"the report is {report}")
    checkpoint = as_typed(run.model_dir, job.parts[-1].estimator.latest_checkpoint())
    click.secho(metrics_line(checkpoint, metrics), bold=True)
    if best and training.keep_best and run.task.is_alone:  # in a cluster, the evaluator keeps it
        result = json.loads(as_path(f"{best}.eval_result.json").read_text())  # written by BestCheckpointExporter
        job.say(f"the best checkpoint is kept as {best}: {monitor.metric} {result[monitor.metric]:.4f}")


def diagnosis(timing, training, input_fn):
    """Says what limits training, from its `TimingHook.summary()`; see `report.diagnosis`."""
    flags = {"--cache": training.cache, "--cache features": training.cache == "features"}
    flags["--mixed-precision"] = training.mixed_precision
    flags["--async-checkpoints"] = training.async_checkpoints
    ceiling = None if training.cache == "features" else input_ceiling(input_fn)
    return diagnose(timing, ceiling, turned=[flag for flag, is_turned in flags.items() if is_turned])


class _Recorder(Exporter):
    """Records the metrics and examples of every evaluation, and prints all metrics but the final ones."""

    name = "note_metrics"

    def __init__(self, run, say):
        metric = Monitor.of(run.training.monitor).metric
        self._run = run
        self._say = say
        self._recorded = None
        self.examples = CollectPredictions(
            run.settings.task, run.settings.class_names, metric if metric in CLASS_METRICS else None
        )

    @functools.cached_property
    def reporter(self):
        # Imports matplotlib, so wait until there is something to show.
        from estimator_train.app.cli.run.reporting import Reporter

        return Reporter(self._run.settings, self._run.data, self._run.model_dir)

    def add(self, checkpoint, metrics):
        """Adds the evaluation that `examples` has just watched to the log and the report."""
        self.reporter.add(checkpoint, self.examples.evaluation(metrics))

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if checkpoint_path != self._recorded:
            self.add(checkpoint_path, eval_result)
            self._recorded = checkpoint_path
        if not is_the_final_export:
            with tqdm.tqdm.external_write_mode():  # hides the progress bar meanwhile
                self._say(metrics_line(as_typed(self._run.model_dir, checkpoint_path), eval_result))


def _say_nothing(line):
    pass
