"""The work of `estimator_train train`: from settings to checkpoints, evaluations and run.json."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os

import click
import tensorflow as tf
import tqdm

from estimator_train import distribution
from estimator_train._engine import checkpoints
from estimator_train._engine.host.paths import as_path
from estimator_train._engine.host.training_lock import training_lock
from estimator_train._engine.session.full_disk import explaining_full_disk
from estimator_train.app.cli.messages import as_typed, metrics_line, on_terminal, stopped_line, timing_lines
from estimator_train.app.cli.monitor import OF_CLASSES, Monitor
from estimator_train.app.cli.plan import steps_per_epoch
from estimator_train.app.cli.run.build import (
    DeletedModelDirError,
    build_estimator,
    build_input_fns,
    local_strategy,
    run_errors,
    set_verbosity,
)
from estimator_train.app.cli.run.evaluation import CollectPredictions
from estimator_train.app.cli.run.provenance import provenance
from estimator_train.app.cli.run.tracking import callback_hooks, log_files, logger_hooks, opened_loggers
from estimator_train.app.cli.settings import one_line_errors, run_file
from estimator_train.app.cli.signals import StopEvaluation, StopOnSignal, Stopped
from estimator_train.app.report.diagnosis import diagnose, input_ceiling
from estimator_train.exporter import BestCheckpointExporter, Exporter, LoggerExporter, compare_by
from estimator_train.hooks import ProgressHook, TimingHook
from estimator_train.hooks.early_stopping import (
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from estimator_train.run_config import RunConfig
from estimator_train.training import EvalSpec, TrainSpec, train_and_evaluate

_WORTH_A_DIAGNOSIS_SECONDS = 10  # of steps


def train(settings, training, data, model_dir, last_step, task, verbosity):
    """Trains in `model_dir` up to `last_step`, and evaluates. Returns the exit code.

    `task` is this process's task in a cluster, where the evaluator evaluates during training and the chief at the end.
    `verbosity` is "quiet", "normal" or "verbose".
    """
    quiet = set_verbosity(verbosity)
    every = min(100, max(1, (last_step or 10_000) // 100))  # gives short runs a curve, too
    with one_line_errors():
        strategy = _strategy(training, task)
        config = _run_config(settings, training, model_dir, strategy, every)
    monitor = Monitor.of(training.monitor)
    examples = CollectPredictions(
        settings.task, settings.class_names, monitor.metric if monitor.metric in OF_CLASSES else None
    )
    parts = _parts_to_come(settings, training, data, model_dir, last_step)
    # Build all before training, so that a phase whose layers cannot be frozen fails now, not after hours.
    estimators = [examples.attach(build_estimator(of, config, how, end)) for of, how, end in parts]
    reporter = functools.cache(lambda: _reporter(settings, data, model_dir))
    input_fns = build_input_fns(settings, data, training)
    say = _say_nothing if quiet else click.echo
    note = _NoteMetrics(examples, reporter, lambda path, metrics: say(metrics_line(as_typed(model_dir, path), metrics)))
    if task.is_evaluator:
        with run_errors():
            _train_and_evaluate(estimators[0], input_fns, training, last_step, [], [examples], [note])
        return 0
    per_epoch = data and steps_per_epoch(settings, training, data)
    callbacks = [callback_hooks(training, per_epoch) for _ in parts]  # to callbacks, each phase is a separate training
    timing = TimingHook(model_dir, every_n_steps=every)
    hooks = ([timing] if quiet else [timing, ProgressHook()]) if task.is_chief else []
    say = say if task.is_chief else _say_nothing
    metrics = None
    in_folder = _in_folder(model_dir) if task.is_chief else contextlib.nullcontext()
    logs = opened_loggers(settings, training, model_dir) if task.is_chief else contextlib.nullcontext([])

    def say_stopped(number):
        if run_file(model_dir).exists():
            checkpoint = as_typed(model_dir, estimators[-1].latest_checkpoint())
            click.echo(stopped_line(number, checkpoint, model_dir), err=True)
        else:
            click.echo(f"estimator_train: stopped by {number.name} before the training began", err=True)

    say_stopped = say_stopped if task.is_chief else _say_nothing
    stop = StopOnSignal(strategy, say_stopped)
    with run_errors(), contextlib.suppress(Stopped), stop, in_folder, logs as loggers:
        if task.is_chief:
            _save_run_file(settings, training, data, model_dir, last_step, strategy)
        hooks = [*hooks, *logger_hooks(loggers, training, per_epoch, every)]
        eval_hooks = [StopEvaluation(stop), examples]
        exporters = [note, LoggerExporter(*loggers)]
        for estimator, (of, _, end), of_user in zip(estimators, parts, callbacks, strict=True):
            stop.check()
            if settings.phases:
                say(f"phase freeze={of.freeze}, to step {end}")
            of_part = [*hooks, *of_user, stop]
            if training.evaluate_every or task.cluster:  # there may be an evaluator
                metrics = _train_and_evaluate(estimator, input_fns, training, end, of_part, eval_hooks, exporters)
            else:
                estimator.train(input_fns[0], hooks=of_part, max_steps=end)
        if metrics is None and task.is_chief:
            stop.check()
            say(f"evaluating {as_typed(model_dir, estimator.latest_checkpoint())}")
            metrics = estimator.evaluate(input_fns[1], hooks=eval_hooks)
            reporter().add(estimator.latest_checkpoint(), examples.evaluation(metrics))
            for logger in loggers:
                logger.log_evaluation(metrics)
        report = metrics and reporter().write()
        best = tf.train.latest_checkpoint(os.path.join(model_dir, "export", BestCheckpointExporter().name))
        log_files(loggers, [run_file(model_dir), report, best and os.path.dirname(best)])
    if stop.received:
        say_stopped(stop.received)
        return 128 + stop.received
    if metrics is None:  # the chief reports the last checkpoint
        return 0
    step, summary = metrics["global_step"], timing.summary()
    say(timing_lines(summary, model_dir, step))
    if summary["seconds"] > _WORTH_A_DIAGNOSIS_SECONDS:
        say(on_terminal([diagnosis(summary, training, input_fns[0])]))
    if training.early_stopping and data and step < last_step:  # a dataset is endless, so it stopped early
        fall = "fall" if monitor.direction == "min" else "rise"
        say(f"stopped at step {step}: the {monitor.metric} did not {fall} in {training.early_stopping} evaluations")
    say(f"the report is {report}")
    checkpoint = as_typed(model_dir, estimators[-1].latest_checkpoint())
    click.secho(metrics_line(checkpoint, metrics), bold=True)
    if best and training.keep_best and task.is_alone:  # in a cluster, the evaluator keeps it
        say(f"the best checkpoint is kept as {best}: {monitor.metric} {_result_of(best)[monitor.metric]:.4f}")
    return 0


def _run_config(settings, training, model_dir, strategy, every):
    """Returns the RunConfig for training, with summaries every `every` steps."""
    return RunConfig(
        model_dir=model_dir,
        tf_random_seed=settings.seed,
        train_distribute=strategy,
        save_checkpoints_steps=training.save_checkpoints_steps,
        save_checkpoints_secs=None if training.save_checkpoints_steps else 600,
        save_summary_steps=every,
        steps_per_loop=training.steps_per_loop,
        accumulate_steps=training.accumulate_steps,
        mixed_precision=training.mixed_precision,
        recompute=training.recompute,
        jit_compile=training.jit_compile,
        async_checkpoints=training.async_checkpoints,
        resume_input=True,
    )


def _save_run_file(settings, training, data, model_dir, last_step, strategy):
    with one_line_errors(), explaining_full_disk(model_dir):
        settings.save(
            model_dir,
            training=dataclasses.asdict(training),
            last_step=last_step,
            data=data and _counts(data),
            **provenance(strategy),
        )


def _parts_to_come(settings, training, data, model_dir, last_step):
    """Returns (settings, training, last step) of each unfinished part of the training, or of the last part."""
    phases = settings.in_phases()
    if not phases:
        return [(settings, training, last_step)]
    per_epoch = steps_per_epoch(settings, training, data)
    ends = itertools.accumulate(phase.epochs * per_epoch for _, phase in phases)
    parts = [
        (of, dataclasses.replace(training, learning_rate=phase.learning_rate), end)
        for (of, phase), end in zip(phases, ends, strict=True)
    ]
    with run_errors():
        checkpoint = checkpoints.latest_intact(model_dir)
    step = checkpoints.read_global_step(checkpoint) if checkpoint else 0
    return [part for part in parts if part[-1] > step] or parts[-1:]


@contextlib.contextmanager
def _in_folder(model_dir):
    """Locks `model_dir`, and explains in one line if its disk fills up or the directory is deleted."""
    with explaining_full_disk(model_dir), training_lock(model_dir):
        try:
            yield
        except (OSError, ValueError, tf.errors.NotFoundError) as error:  # missing files can raise ValueError, too
            if run_file(model_dir).exists():
                raise
            raise DeletedModelDirError(model_dir) from error
    if not run_file(model_dir).exists():
        raise DeletedModelDirError(model_dir)


def diagnosis(timing, training, input_fn):
    """Says what limits training, from its `TimingHook.summary()`; see `report.diagnosis`."""
    flags = {"--cache": training.cache, "--steps-per-loop": training.steps_per_loop > 1}
    flags |= {"--cache features": training.cache == "features", "--mixed-precision": training.mixed_precision}
    flags["--async-checkpoints"] = training.async_checkpoints
    ceiling = None if training.cache == "features" else input_ceiling(input_fn)
    return diagnose(timing, ceiling, turned=[flag for flag, is_turned in flags.items() if is_turned])


def _train_and_evaluate(estimator, input_fns, training, last_step, hooks, eval_hooks, exporters):
    """Trains and prints evaluations; returns the metrics of the last checkpoint, or None in a cluster."""
    train_input_fn, eval_input_fn = input_fns
    monitor = Monitor.of(training.monitor)
    if training.early_stopping or training.keep_best:  # without patience, the hook only checks that the metric exists
        make_hook = stop_if_no_decrease_hook if monitor.direction == "min" else stop_if_no_increase_hook
        patience = training.early_stopping * training.evaluate_every if training.early_stopping else math.inf
        # Checked after every step, it stops right after the evaluation, not one interval later.
        stop = make_hook(estimator, monitor.metric, patience, run_every_secs=None, run_every_steps=1)
        hooks = [*hooks, stop]
    best = BestCheckpointExporter(compare_fn=compare_by(*monitor))
    eval_spec = EvalSpec(
        eval_input_fn,
        steps=None,
        hooks=eval_hooks,
        exporters=[*exporters, *([best] if training.keep_best else [])],
        start_delay_secs=0,
        throttle_secs=0,
        every_steps=training.evaluate_every,
    )
    metrics = train_and_evaluate(estimator, TrainSpec(train_input_fn, last_step, hooks), eval_spec)
    return metrics and metrics[0]


def _result_of(checkpoint):
    """Returns the metrics that `BestCheckpointExporter` stores next to a checkpoint."""
    return json.loads(as_path(f"{checkpoint}.eval_result.json").read_text())


class _NoteMetrics(Exporter):
    """Records the metrics of every evaluation, and prints all but the final ones."""

    name = "note_metrics"

    def __init__(self, examples, reporter, say):
        self._examples = examples
        self._reporter = reporter
        self._say = say
        self._noted = None

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if checkpoint_path != self._noted:
            self._reporter().add(checkpoint_path, self._examples.evaluation(eval_result))
            self._noted = checkpoint_path
        if not is_the_final_export:
            with tqdm.tqdm.external_write_mode():  # hides the progress bar meanwhile
                self._say(checkpoint_path, eval_result)


def _reporter(settings, data, model_dir):
    # Imports matplotlib, so wait until there is something to show.
    from estimator_train.app.cli.run.reporting import Reporter

    return Reporter(settings, data, model_dir)


def _say_nothing(line):
    pass


def _counts(data):
    return {"train": data.train_examples, "eval": data.eval_examples, "classes": data.class_counts()}


def _strategy(training, task):
    if task.is_evaluator:
        distribution.let_memory_grow()  # it evaluates on one device, which it may share with a worker
        return None
    if not task.is_alone:
        return distribution.multi_worker(training.gpus or min(1, len(tf.config.list_physical_devices("GPU"))))
    return local_strategy(training.gpus, training.replicas, training.all_reduce)
