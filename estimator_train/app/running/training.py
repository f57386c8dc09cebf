"""The work of `estimator_train train`: from a `Run` to checkpoints, evaluations and run.json."""

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable
from typing import Any

import click
import tensorflow as tf
import tqdm

import estimator_train as et
from estimator_train import distribution
from estimator_train._engine.host.full_disk import explaining_full_disk
from estimator_train._engine.host.logs import logging_only
from estimator_train._engine.host.training_lock import training_lock
from estimator_train.app.errors import SettingError, one_line_errors, spelled
from estimator_train.app.running import build
from estimator_train.app.running.changed_images import keep_sides
from estimator_train.app.running.damaged_images import naming_all_damaged_images
from estimator_train.app.running.devices import visible_gpus
from estimator_train.app.running.early_stopping import StopBeforeFirstStep, early_stopping, has_stopped_early
from estimator_train.app.running.errors import run_errors
from estimator_train.app.running.evaluation import CollectPredictions
from estimator_train.app.running.messages import as_typed, metrics_line, stopped_line, warn
from estimator_train.app.running.plan import judging
from estimator_train.app.running.planned_run import PlannedRun
from estimator_train.app.running.result import Result, say_result, unmonitored
from estimator_train.app.running.signals import StopEvaluation, StopOnSignal, Stopped
from estimator_train.app.running.tracking import callback_hooks, logger_hooks, opened_loggers
from estimator_train.app.runs import checkpoints, run_file
from estimator_train.app.runs.advice import unfit_for
from estimator_train.app.runs.monitor import Monitor
from estimator_train.app.runs.progress import Progress
from estimator_train.app.runs.provenance import provenance
from estimator_train.app.runs.spec import Settings
from estimator_train.app.runs.stored_run import newest_intact


class _Recorder(et.EvaluationListener):
    """Records the metrics and examples of every evaluation, and prints all metrics but the final ones."""

    def __init__(self, run):
        self._run = run
        self._recorded = self._images = None
        self._choosing = run.data and run.data.to_choose_on()
        if run.validation_examples:
            self._images = "validation"
        self.examples = CollectPredictions(run.settings)

    @functools.cached_property
    def reporter(self):
        # Imports matplotlib, so wait until there is something to show.
        from estimator_train.app.running.reporting import Reporter

        return Reporter(self._run.settings, self._run.model_dir)

    def add(self, checkpoint, metrics, data, **about):
        """Adds an evaluation of a dataset, which `examples` has just watched, to the log and the report."""
        self.reporter.add(checkpoint, self.examples.evaluation(metrics), data, **about)

    def after_evaluation(self, estimator, checkpoint_path, eval_result, is_final):
        evaluation = checkpoint_path, repr(eval_result)  # which may have arrays
        if evaluation != self._recorded:  # a phase first evaluates the checkpoint that ended the last one
            self.add(checkpoint_path, eval_result, self._choosing, images=self._images)
            self._recorded = evaluation
        if not (is_final or self._run.is_quiet):
            with tqdm.tqdm.external_write_mode():  # hides the progress bar meanwhile
                checkpoint = as_typed(self._run.model_dir, checkpoint_path)
                click.echo(metrics_line(checkpoint, eval_result, unmonitored(self._run)))


@dataclasses.dataclass(frozen=True)
class _Stage:
    """The whole training, or one of its phases, from `first_step` to `last_step`."""

    settings: Settings
    estimator: et.Estimator
    first_step: int
    last_step: int | None
    trained_weights: int | None


@dataclasses.dataclass(frozen=True)
class _Job:
    run: PlannedRun
    stages: list[_Stage]  # those that are not finished, or the last one
    config: et.RunConfig  # of the Estimators
    input_fns: tuple[Callable[..., Any], ...]  # for training, for the evaluations on the way, and for the final one
    recorder: _Recorder

    @property
    def estimator(self) -> et.Estimator:
        return self.stages[-1].estimator

    def say(self, line: str) -> None:
        """Prints a line on the chief, unless --quiet hides all but the result."""
        if self.run.task.is_chief and not self.run.is_quiet:
            click.echo(line)


def run_training(run: PlannedRun) -> int:
    """Trains and evaluates, in a cluster by the evaluator meanwhile and the chief at the end; returns the exit code."""
    job = _prepare(run)
    run = job.run
    if run.task.is_evaluator:
        with run_errors():
            _train_and_evaluate(job, job.stages[0], eval_hooks=[job.recorder.examples])
        return 0
    # To callbacks, each stage is a separate training.
    callbacks = [callback_hooks(run) for _ in job.stages]
    stop = StopOnSignal(job.config.train_distribute, functools.partial(_say_stopped, job))
    timing = et.TimingHook(run.model_dir, every_n_steps=job.config.save_summary_steps)
    result = report = None
    with (
        logging_only(lambda record: not hasattr(record, "examples_of_step")),  # which the plan has shown
        run_errors(unfit_for(run.settings, run.training, run.data, visible_gpus(run.training))),
        naming_all_damaged_images(run.settings, run.data),
        contextlib.suppress(Stopped),
        stop,
        _claimed(run),
        opened_loggers(run) as loggers,
    ):
        if run.task.is_chief:
            _save_run_file(job)
        job, metrics = _train(job, stop, _hooks_of(job, timing, loggers), callbacks, loggers)
        with stop.ending_together():
            if run.task.is_chief:
                result = _evaluate(job, metrics, stop, loggers)
                report = _write_report(job, result, loggers)
    if stop.received:
        _say_stopped(job, stop.received)
        return 128 + stop.received
    if result is not None:
        say_result(result, job.run, timing.summary(), report, job.input_fns[0], job.say)
    return 0


def _prepare(run):
    build.set_verbosity(run.verbosity)
    run = _verified(run)
    every = min(100, max(1, (run.last_step or 10_000) // 100))  # gives short runs a curve, too
    with one_line_errors():
        config = et.RunConfig(
            model_dir=run.model_dir,
            tf_random_seed=run.settings.seed,
            train_distribute=_strategy(run),
            save_summary_steps=every,
            resume_input=True,
            **run.training.config_arguments,
        )
    recorder = _Recorder(run)
    return _Job(run, _stages(run, config, recorder), config, _input_fns(run), recorder)


def _verified(run):
    """Returns the run from its newest checkpoint that is intact: only TensorFlow finds a wrong byte in one."""
    with run_errors():
        path = newest_intact(run.model_dir)
    checkpoint = path and os.path.basename(path)
    if checkpoint == run.progress.checkpoint:
        return run
    run = dataclasses.replace(run, progress=Progress.of(run.model_dir, checkpoint))
    if run.task.is_chief and not run.is_quiet:
        click.echo(f"continuing from {checkpoint or 'step 0'} instead, to step {run.last_step}")
    return run


def _input_fns(run):
    """Returns the input_fns of training, of the evaluations during training, and of the final evaluation."""
    choosing, cache = run.data and run.data.to_choose_on(), run.training.cache
    train_input_fn = build.build_train_input_fn(run.settings, run.data, run.training)
    eval_input_fn = build.build_eval_input_fn(run.settings, choosing, cache)
    if cache == "memory":  # the last one is read once
        cache = None
    return train_input_fn, eval_input_fn, build.build_eval_input_fn(run.settings, run.data, cache)


def _strategy(run):
    if run.task.is_evaluator:
        distribution.let_memory_grow()  # it evaluates on one device, which it may share with a worker
        return None
    seen, is_chosen = tf.config.get_visible_devices("GPU"), run.training.gpus or run.training.replicas
    if len(seen) > 1 and not (is_chosen or run.training.jit_compile or run.is_quiet):
        warn(spelled(f"training uses 1 of {len(seen)} GPUs; {{gpus={len(seen)}}} uses all"))
    if run.task.is_alone:
        return build.local_strategy(run.training)
    gpus = run.training.gpus or min(1, len(tf.config.list_physical_devices("GPU")))
    return distribution.multi_worker(gpus, all_reduce=run.training.all_reduce)


def _stages(run, config, recorder):
    """Builds all stages before training, so that layers that cannot be frozen are found now, not after hours."""
    stages, resumes = [], run.progress.checkpoint is not None
    for settings, training, first_step, last_step in _unfinished_stages(run):
        model = build.build_model(settings, training, last_step, first_step=first_step, resumes=resumes)
        estimator = recorder.examples.attach(build.estimator_of(model, config))
        stages.append(_Stage(settings, estimator, first_step, last_step, build.trained_weights(model)))
    return stages


def _unfinished_stages(run):
    """Returns (settings, training, first step, last step) of each stage that is not finished yet, or of the last."""
    phases = run.settings.in_phases()
    if not phases:
        return [(run.settings, run.training, *steps) for steps in run.steps_of_stages]
    stages = [
        (settings, dataclasses.replace(run.training, learning_rate=phase.learning_rate), *steps)
        for (settings, phase), steps in zip(phases, run.steps_of_stages, strict=True)
    ]
    return [stage for stage in stages if stage[-1] > run.progress.step] or stages[-1:]


@contextlib.contextmanager
def _claimed(run):
    """Locks the directory of the run, and explains in one line if its disk fills up or it is deleted."""
    if not run.task.is_chief:
        yield
        return
    path = run_file.path_in(run.model_dir)
    deleted = SettingError(
        "{0} was deleted during training: it has only checkpoints saved since then, if any; start again with another "
        "{model_dir}",
        run.model_dir,
        exit_code=1,
    )
    with explaining_full_disk(run.model_dir), training_lock(run.model_dir):
        try:
            yield
        except (OSError, ValueError, tf.errors.NotFoundError) as error:  # missing files can raise ValueError, too
            if path.exists():
                raise
            raise deleted from error
    if not path.exists():
        raise deleted


def _save_run_file(job):
    run, data = job.run, job.run.data
    counts = data and {"train": data.train_examples, "eval": data.eval_examples, "classes": data.class_counts()}
    if data and data.validation_examples:
        counts["validation"] = data.validation_examples
    if data and (judged := judging(run)):
        counts["judged"] = judged
    with one_line_errors(), explaining_full_disk(run.model_dir):
        keep_sides(run.model_dir, run.settings, data, is_new=not run.progress.step)
        run_file.save(
            run.model_dir,
            dataclasses.asdict(run.settings),
            training=dataclasses.asdict(run.training),
            data=counts,
            chooses_cache=run.chooses_cache,
            trained_weights=job.stages[-1].trained_weights,
            command=run.command,
            **_ends(run),
            **provenance(job.config.train_distribute),
        )


def _hooks_of(job, timing, loggers):
    if not job.run.task.is_chief:
        return []
    hooks = [timing]
    if not job.run.is_quiet:
        hooks.append(et.ProgressHook())
    return hooks + logger_hooks(loggers, job.run, job.config.save_summary_steps)


def _train(job, stop, hooks, callbacks, loggers):
    """Trains all stages; returns the job at its last one, and the last checkpoint's metrics if it has evaluated it."""
    run, metrics = job.run, None
    for index, own_hooks in enumerate(callbacks):
        stop.check()
        if index:
            job = _at_next_phase(job)
        stage = job.stages[0]
        if run.settings.phases:
            job.say(f"phase freeze={stage.settings.freeze}, to step {stage.last_step}")
        if stage.trained_weights:
            job.say(f"training {stage.trained_weights:,} weights")
        stage_hooks = [*hooks, *own_hooks, stop]
        if run.training.evaluate_every or run.task.cluster:  # there may be an evaluator
            eval_hooks = [StopEvaluation(stop), job.recorder.examples]
            metrics = _train_and_evaluate(job, stage, stage_hooks, eval_hooks, loggers)
        else:
            stage.estimator.train(job.input_fns[0], hooks=stage_hooks, max_steps=stage.last_step)
    return job, metrics


def _at_next_phase(job):
    """Returns the job without its first stage. If that has stopped early, the others begin and end earlier, too."""
    stage, *others = job.stages
    checkpoint = checkpoints.newest(job.run.model_dir)
    step = checkpoints.step_of(checkpoint)
    if step == stage.last_step:
        return dataclasses.replace(job, stages=others)
    job.say(f"phase freeze={stage.settings.freeze} stopped at step {step}")
    before = [last_step for _, last_step in job.run.steps_of_stages if last_step <= stage.first_step]
    progress = job.run.progress.going_on(job.run.steps_per_epoch)
    progress = dataclasses.replace(progress, checkpoint=checkpoint, ended_phases=(*before, step))
    run = dataclasses.replace(job.run, progress=progress)
    # A run that is killed from now on is resumed in the next phase, with other values of --early-stopping, too.
    about = run_file.read(run_file.path_in(run.model_dir)) | _ends(run)
    run_file.save(run.model_dir, about.pop("settings"), **about)
    return dataclasses.replace(job, run=run, stages=_stages(run, job.config, job.recorder))


def _ends(run):
    """Returns what run.json says of the steps at which the training, its phases and epochs end."""
    ends = {"last_step": run.last_step}
    if run.data:
        ends["steps_per_epoch"] = run.progress.going_on(run.steps_per_epoch).steps_per_epoch
    if run.settings.phases:
        ends["phase_ends"] = [last_step for _, last_step in run.steps_of_stages[:-1]]
    return ends


def _train_and_evaluate(job, stage, hooks=(), eval_hooks=(), loggers=()):
    """Trains and evaluates; returns the last checkpoint's metrics, None in a cluster or after an early stop."""
    training, (train_input_fn, eval_input_fn, _) = job.run.training, job.input_fns
    exporters = []
    if training.early_stopping or training.keep_best:
        stop = early_stopping(training, stage)
        if job.run.task.is_alone:  # workers must agree
            newest = stage.estimator.latest_checkpoint()
            if newest and stop.has_stopped(checkpoints.step_of(newest)):
                return None
            hooks = [*hooks, StopBeforeFirstStep(stop)]
        hooks = [*hooks, stop]
    if training.keep_best:
        exporters.append(et.BestCheckpointExporter(compare_fn=et.compare_by(*Monitor.of(training.monitor))))
    eval_spec = et.EvalSpec(
        eval_input_fn,
        steps=None,
        hooks=eval_hooks,
        exporters=exporters,
        start_delay_secs=0,
        throttle_secs=0,
        every_steps=training.evaluate_every,
        listeners=[job.recorder, et.LoggerListener(*loggers)],
    )
    metrics = et.train_and_evaluate(stage.estimator, et.TrainSpec(train_input_fn, stage.last_step, hooks), eval_spec)
    return metrics and metrics[0]


def _evaluate(job, metrics, stop, loggers):
    """Returns the `Result`: of the kept checkpoint, or the last one, evaluated unless `metrics` are its final ones."""
    run, last = job.run, job.estimator.latest_checkpoint()
    best = name = None
    if run.training.keep_best and run.task.is_alone:
        # In a cluster, the evaluator keeps it, and may not have seen the last checkpoint yet.
        best = checkpoints.best(run.model_dir)
    step = checkpoints.step_of(last)
    about = {"last_step": step, "kept": best, "stopped_early": has_stopped_early(run.training, job.stages[0], step)}
    checkpoint = best or last
    is_final = metrics is not None and not run.validation_examples
    if is_final and metrics["global_step"] == checkpoints.step_of(checkpoint):
        return Result(checkpoint, metrics, **about)
    stop.check()
    if run.training.evaluate_every:  # otherwise it is a point of the curves
        name = "final"
    shown = best or as_typed(run.model_dir, last)
    job.say(f"evaluating {shown}")
    hooks = [StopEvaluation(stop), job.recorder.examples]
    metrics = job.estimator.evaluate(job.input_fns[2], hooks=hooks, checkpoint_path=checkpoint, name=name)
    job.recorder.add(checkpoint, metrics, run.data, name=name)
    for logger in loggers:
        if name:
            logger.log_evaluation(metrics | {"global_step": step}, prefix=f"{name}_")
        else:
            logger.log_evaluation(metrics)
    return Result(checkpoint, metrics, **about)


def _write_report(job, result, loggers):
    report = job.recorder.reporter.write()
    paths = [run_file.path_in(job.run.model_dir), report, result.kept and os.path.dirname(result.kept)]
    for logger, path in itertools.product(loggers, filter(None, paths)):
        logger.log_file(path)
    return report


def _say_stopped(job, number):
    if job.run.task.is_chief:
        model_dir = job.run.model_dir
        warn(stopped_line(number, as_typed(model_dir, job.estimator.latest_checkpoint()), model_dir))
