"""estimator_train [train]: trains a model on a dataset and evaluates it."""

from __future__ import annotations

import dataclasses
import os
import types

import click
import cloup
from click.core import ParameterSource

from estimator_train._engine.distribution.cluster_task import this_task
from estimator_train._engine.host.paths import absolute, is_remote
from estimator_train.app import datasets, models, recipes
from estimator_train.app.cli import environment, trust
from estimator_train.app.cli.checkpoint_flag import best_checkpoint
from estimator_train.app.cli.commands import training_flags
from estimator_train.app.cli.conflicts import check_conflicts, flag_of
from estimator_train.app.cli.messages import on_terminal
from estimator_train.app.cli.monitor import Monitor, check_monitor
from estimator_train.app.cli.plan import newest_checkpoint, plan, steps_per_epoch
from estimator_train.app.cli.settings import (
    Settings,
    Training,
    check_folder,
    check_function,
    check_model_dir,
    check_same_settings,
    flags_of,
    one_line_errors,
    open_data,
    optimization_of,
    run_file,
)
from estimator_train.app.cli.startup import starting_tensorflow
from estimator_train.app.datasets.images import ImageDataset

# The flags of a run repeated by --config or --resume that a flag on the command line overrides.
_INSTEAD_OF = {
    "dataset": ("data_dir", "split", "task", "input_fn", "eval_input_fn"),
    "data_dir": ("input_fn", "eval_input_fn"),
    "input_fn": (
        *("dataset", "data_dir", "limit", "split", "task", "batch_size", "epochs", "cache", "fast", "class_weights"),
        *("freeze", "phases"),
    ),
    "epochs": ("max_steps",),
    "max_steps": ("epochs",),
    "phases": ("epochs", "max_steps", "freeze", "learning_rate", "schedule", "warmup_steps"),
    "gpus": ("replicas", "split_over"),
    "replicas": ("gpus", "split_over"),
    "split_over": ("gpus", "replicas", "all_reduce"),
    "find_learning_rate": (
        *(
            "learning_rate",
            "schedule",
            "warmup_steps",
            "scale_learning_rate",
            "ema",
            "evaluate_every",
            "early_stopping",
        ),
        *("keep_best", "epochs", "max_steps", "save_checkpoints_steps"),
    ),
}

# Flags that say what kind of run a file describes; `trust.check` reads them.
_KINDS = ("dataset", "recipe")

_STEPS_OF_RATE_TEST = 100

# Flags that are not settings of a recipe but work with every recipe.
_OF_EVERY_RECIPE = ("recipe", "gpus", "replicas", "all_reduce")


_EXAMPLES = """\b
Examples:
  estimator_train --dataset oct2017 --data-dir OCT2017 --gpus 2
  estimator_train --model-dir runs/oct2017 --resume
  estimator_train --config runs/oct2017/run.json --seed 2 --model-dir runs/again
"""


class _RepeatingCommand(cloup.Command):
    """Takes flags that are not given from --config or, with --resume, from the existing run."""

    def parse_args(self, ctx, args):
        rest = super().parse_args(ctx, [*args])
        if ctx.resilient_parsing:  # for shell completion
            return rest
        path = ctx.params["config"]
        if path is None and ctx.params["resume"]:
            path = run_file(_model_dir(types.SimpleNamespace(**ctx.params)))
            path = path if path.exists() else None
        if path is not None:
            given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
            replaced = {other for name in given for other in _INSTEAD_OF.get(name, ())}
            flags = flags_of(path)
            _check_same_system(flags, {name: ctx.params[name] for name in given}, path)
            ctx.default_map = {name: value for name, value in flags.items() if name not in replaced}
            trust.check(
                path, ctx.default_map | {name: None for name in given if name not in _KINDS}, ctx.params["trust_run"]
            )
            ctx.params.clear()
            rest = super().parse_args(ctx, args)
        del ctx.params["config"], ctx.params["trust_run"]
        return rest


def _check_same_system(flags, given, path):
    """Raises ClickException if a run would switch to another recipe, or between a recipe and a dataset."""
    recipe, others = flags.get("recipe"), [name for name in ("dataset", "input_fn", "model") if name in given]
    wanted = given.get("recipe", recipe)
    if wanted != recipe or (recipe and others):
        of = f"the recipe {recipe}" if recipe else f"the dataset {flags.get('dataset', 'of an input_fn')}"
        raise click.ClickException(f"{path} describes a run of {of}; give another --model-dir")


@cloup.command(cls=_RepeatingCommand, epilog=_EXAMPLES)
@training_flags.MOST_USED
@training_flags.DATA
@training_flags.MODEL
@training_flags.TRAINING
@training_flags.DEVICES
@training_flags.CHECKPOINTS
@training_flags.OUTPUT
def train(model_dir, resume, dry_run, quiet, verbose, **flags):
    """Train a model on a dataset and evaluate it.

    A directory that already holds a run is refused without --resume. Ctrl-C saves a checkpoint and ends training.
    """
    check_conflicts(types.SimpleNamespace(quiet=quiet, verbose=verbose, resume=resume, **flags))
    verbosity = "quiet" if quiet else "verbose" if verbose else "normal"
    flags = types.SimpleNamespace(model_dir=model_dir, **flags)
    with one_line_errors():
        task = this_task()
    if flags.recipe:
        return _train_recipe(flags, task, resume, dry_run, verbosity)
    if flags.find_learning_rate and not task.is_alone:
        raise click.ClickException("--find-learning-rate is for one process; unset TF_CONFIG")
    if flags.callbacks and not task.is_alone:
        raise click.ClickException("--callbacks is for one process; unset TF_CONFIG, or leave it out")
    if flags.replicas and not task.is_alone:
        raise click.ClickException("--replicas is for one process; in TF_CONFIG's cluster every worker is a replica")
    model_dir = _model_dir(flags)
    check_model_dir(model_dir)
    check_folder(model_dir, "--model-dir")
    trackers = [name for name in flags.log or () if name != "csv"]
    if trackers and is_remote(model_dir):
        raise click.ClickException(
            f"--log {trackers[0]} needs a local --model-dir, and {model_dir} is remote; leave it out"
        )
    if task.is_chief and not resume and not flags.find_learning_rate:
        _check_no_run(model_dir)
    if newest_checkpoint(model_dir) and not (run_file(model_dir).exists() or flags.dataset or flags.input_fn):
        raise click.ClickException(
            f"{model_dir} holds a run whose run.json is missing; give --dataset or --input-fn, and its other flags"
        )
    variables = _defaults_of_environment(flags)
    if not flags.input_fn:
        flags.dataset = flags.dataset or datasets.NAMES[0]
    if dry_run and must_be_downloaded(flags):
        about = datasets.named(flags.dataset).ABOUT
        click.echo(f"{flags.dataset} is not here: training downloads it first, {about.size}, {about.source}")
        return 0
    if flags.gpus and not dry_run and must_be_downloaded(flags):
        with starting_tensorflow(verbosity):
            from estimator_train.app.cli.run import devices

        devices.check_gpus(flags.gpus)

    settings, data = _settings(flags, dry_run)
    earlier = Settings.load(model_dir)
    if earlier is not None and not flags.find_learning_rate:
        settings.check_same(earlier, model_dir)
    training = _training(flags, data)
    _check_freezing(settings, task)
    epochs = sum(phase.epochs for _, phase in settings.in_phases()) or training.epochs
    last_step = training.max_steps or (data and epochs * steps_per_epoch(settings, training, data))
    if flags.find_learning_rate:
        last_step = _STEPS_OF_RATE_TEST
    with one_line_errors():
        optimization_of(settings, training).check_steps(last_step)
        if training.class_weights:
            datasets.class_weights(data, training.class_weights)
    if training.monitor:
        check_monitor(
            Monitor.of(training.monitor), settings.class_names, training.keep_best and best_checkpoint(model_dir)
        )
    if task.is_chief and (not quiet or dry_run):
        click.echo(on_terminal(plan(settings, training, data, model_dir, last_step, variables), indent=13))
    if task.is_chief:
        _say_if_it_starts_anew(model_dir)
    if dry_run:
        return 0

    trust.remember(dataclasses.asdict(settings) | dataclasses.asdict(training))
    if flags.find_learning_rate:
        with starting_tensorflow(verbosity):
            from estimator_train.app.cli.run.rate_test import find_learning_rate

        return find_learning_rate(settings, training, data, model_dir, last_step, verbosity)
    with starting_tensorflow(verbosity):
        from estimator_train.app.cli.run.training import train

    return train(settings, training, data, model_dir, last_step, task, verbosity)


def _train_recipe(flags, task, resume, dry_run, verbosity):
    with one_line_errors():
        known = recipes.settings_of(flags.recipe)
    context = click.get_current_context()
    given = {
        name: value
        for name, value in vars(flags).items()
        if context.get_parameter_source(name) in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)
    }
    settings = {name: value for name, value in given.items() if name not in ("model_dir", *_OF_EVERY_RECIPE)}
    for name in settings:
        if name not in known:
            there = [name for name in known if hasattr(flags, name)] + [*_OF_EVERY_RECIPE[1:]]
            flags_there = ", ".join(map(flag_of, there))
            raise click.ClickException(f"the recipe {flags.recipe} takes no {flag_of(name)}; it takes {flags_there}")
    if not task.is_alone:
        raise click.ClickException("a recipe trains in one process; unset TF_CONFIG")
    if settings.get("data_dir") and not settings["data_dir"].startswith("tfds:"):
        settings["data_dir"] = absolute(settings["data_dir"])
    if models.is_file(settings.get("weights")):
        settings["weights"] = os.path.abspath(settings["weights"])
    model_dir = _model_dir(flags)
    check_model_dir(model_dir)
    check_folder(model_dir, "--model-dir")
    if not resume:
        _check_no_run(model_dir)
    elif run_file(model_dir).exists():
        check_same_settings(settings, run_file(model_dir))
    if dry_run or verbosity != "quiet":
        facts = {name: value for name, value in given.items() if name != "model_dir"} | {"folder": model_dir}
        click.echo(on_terminal([f"{name:<12} {value}" for name, value in facts.items()], indent=13))
    _say_if_it_starts_anew(model_dir)
    if dry_run:
        return 0
    trust.remember({"recipe": flags.recipe, **settings})
    with starting_tensorflow(verbosity):
        from estimator_train.app.cli.run import recipe_training

    replicas = {name: getattr(flags, name) for name in _OF_EVERY_RECIPE[1:]}
    return recipe_training.train(flags.recipe, settings, model_dir, replicas, verbosity)


def _defaults_of_environment(flags):
    """Sets --data-dir from the environment if it is not given; returns {fact of the plan: environment variable}."""
    variables = {}
    if flags.dataset and not flags.data_dir:
        flags.data_dir, channels = environment.data_dir()
        variables |= {"files": channels} if channels else {}
    if click.get_current_context().get_parameter_source("model_dir") is ParameterSource.ENVIRONMENT:
        variables["folder"] = environment.model_dir_variable()
    return variables


def _model_dir(flags):
    name = "own" if flags.input_fn else flags.recipe or flags.dataset or datasets.NAMES[0]
    return flags.model_dir or os.path.join("runs", name)


def _check_no_run(model_dir):
    checkpoint = newest_checkpoint(model_dir)
    if checkpoint or run_file(model_dir).exists():
        where = f"trained to {checkpoint}" if checkpoint else "without a checkpoint yet"
        raise click.ClickException(f"{model_dir} holds a run, {where}; add --resume, or give another --model-dir")


def _say_if_it_starts_anew(model_dir):
    """Warns that a run without a checkpoint starts at step 0, because its checkpoints may have been lost."""
    if run_file(model_dir).exists() and newest_checkpoint(model_dir) is None:
        click.echo(f"estimator_train: {model_dir} holds a run but no checkpoint: it starts at step 0", err=True)


def must_be_downloaded(flags):
    """Returns whether training would have to download its data; the embedded dataset is drawn instead."""
    if flags.data_dir or flags.dataset in (None, datasets.NAMES[0]):
        return False
    with one_line_errors():
        module = datasets.named(flags.dataset)
        return hasattr(module, "is_here") and not module.is_here()


def _training(flags, data):
    training = Training(**{field.name: getattr(flags, field.name) for field in dataclasses.fields(Training)})
    if training.class_weights not in (None, "balanced"):
        training = dataclasses.replace(training, class_weights=os.path.abspath(training.class_weights))
    if training.callbacks:
        check_function(training.callbacks, "--callbacks")
        training = dataclasses.replace(training, callbacks=os.path.abspath(training.callbacks))
    if training.max_steps or flags.phases or data is None:
        return training
    return dataclasses.replace(training, epochs=training.epochs or data.default_epochs)


def _settings(flags, dry_run):
    """The `Settings`, and the dataset, or None for an input_fn."""
    model, weights = flags.model, flags.weights
    with one_line_errors():
        for flag, reference in [("--input-fn", flags.input_fn), ("--eval-input-fn", flags.eval_input_fn)]:
            if reference:
                check_function(reference, flag)
        if model and ":" in model:
            check_function(model, "--model")
        elif model:
            models.check_name(model)
        models.check_weights(weights)
    if flags.cache and is_remote(flags.cache):
        raise click.ClickException(f"--cache {flags.cache}: give a folder on this machine, or memory")
    data, task = None, flags.task or "classification"
    if flags.dataset:
        limits = {"limit": flags.limit, "split": flags.split, "seed": flags.seed, "task": task}
        data = open_data(flags.dataset, flags.data_dir, draw=not dry_run, **limits)
        for flag, given in [("--cache", flags.cache), ("--fast", flags.fast)]:
            if given and not isinstance(data, ImageDataset):
                raise click.ClickException(f"{flag} is for image files, and {data.name} has none; leave it out")
    settings = Settings(
        dataset=flags.dataset,
        data_dir=flags.data_dir and absolute(flags.data_dir),
        input_fn=flags.input_fn and os.path.abspath(flags.input_fn),
        eval_input_fn=flags.eval_input_fn and os.path.abspath(flags.eval_input_fn),
        model=(os.path.abspath(model) if model and ":" in model else model) or data.default_model,
        weights=os.path.abspath(weights) if models.is_file(weights) else weights,
        image_size=flags.image_size or (data and data.image_size),
        class_names=data.class_names if data else (),
        batch_size=flags.batch_size or (data and data.default_batch_size),
        seed=flags.seed,
        limit=flags.limit,
        split=flags.split,
        fast=flags.fast,
        optimizer=flags.optimizer,
        ema=flags.ema,
        label_smoothing=flags.label_smoothing,
        dropout=flags.dropout,
        freeze=flags.freeze,
        phases=flags.phases,
        task=task,
        label_moments=data and data.label_moments(),
    )
    return settings, data


def _check_freezing(settings, task):
    """Rejects --freeze and --phases if there is nothing to freeze, or random weights would be frozen."""
    if settings.phases and not task.is_alone:
        raise click.ClickException("--phases is for one process; unset TF_CONFIG")
    with one_line_errors():
        for each in (settings, *(of for of, _ in settings.in_phases())):
            models.check_freeze(each.model, each.weights, each.freeze)
