"""The work of `estimator_train --recipe`."""

from __future__ import annotations

import contextlib
import functools

import click
import tensorflow as tf

from estimator_train import distribution
from estimator_train.app import recipes
from estimator_train.app.cli.conflicts import flag_of
from estimator_train.app.cli.errors import one_line_errors, run_errors
from estimator_train.app.cli.messages import metrics_line, stopped_line, timing_lines
from estimator_train.app.cli.run.build import local_strategy, set_verbosity
from estimator_train.app.cli.run.devices import name_idle_gpus
from estimator_train.app.cli.signals import StopAfterTraining, StopOnSignal, Stopped
from estimator_train.app.runs import run_file
from estimator_train.app.runs.provenance import provenance
from estimator_train.hooks import ProgressHook, SessionRunHook, TimingHook


def train(run):
    """Trains and evaluates a `RecipeRun`. Returns the exit code."""
    quiet, model_dir = set_verbosity(run.verbosity), run.model_dir
    recipe = recipes.named(run.recipe)
    if not (quiet or run.replicas["gpus"] or run.replicas["replicas"] or run.settings.get("split_over")):
        name_idle_gpus()
    with one_line_errors():
        strategy = local_strategy(**run.replicas)
        arguments = dict(run.settings)
        if "split_over" in arguments:
            arguments["split_over"] = distribution.devices_to_split_over(arguments["split_over"])
    about = provenance(strategy, arguments.get("split_over"))
    settings = {"recipe": run.recipe, **run.settings}
    keep_run = functools.partial(run_file.save, model_dir, settings, training=run.replicas, **about)
    timing = TimingHook(model_dir)
    hooks = [_AtBegin(keep_run), timing] if quiet else [_AtBegin(keep_run), timing, ProgressHook()]

    def say_stopped(number):
        click.echo(stopped_line(number, tf.train.latest_checkpoint(model_dir), model_dir), err=True)

    stop = StopOnSignal(strategy, say_stopped)
    with run_errors(_not_to_try(run)), one_line_errors(), contextlib.suppress(Stopped), stop:
        metrics = recipe.train(model_dir, **arguments, strategy=strategy, hooks=[*hooks, stop, StopAfterTraining(stop)])
    if stop.received:
        say_stopped(stop.received)
        return 128 + stop.received
    if not quiet:
        click.echo(timing_lines(timing.summary(), model_dir, metrics["global_step"]))
    click.secho(metrics_line(tf.train.latest_checkpoint(model_dir), metrics), bold=True)
    return 0


def _not_to_try(run):
    """Returns the flags that save memory, but that the recipe does not take or the run already has."""
    takes, number = recipes.settings_of(run.recipe), ("batch_size", "accumulate_steps")
    saving = (*number, "mixed_precision", "recompute", "split_over")
    has = [name for name in saving if name not in takes or (name in run.settings and name not in number)]
    return [flag_of(name) for name in has]


class _AtBegin(SessionRunHook):
    """A hook that calls a function when training begins, which is after the recipe has checked its input."""

    def __init__(self, function):
        self.begin = function
