"""The work behind the commands, with TensorFlow: from settings to an Estimator that trains and evaluates."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import os
import re
import sys

import click
import tensorflow as tf
import tf_keras as keras

from estimator_train import checkpoints, datasets, distribution, models
from estimator_train.cli.settings import one_line_errors
from estimator_train.hooks import ProgressHook, TimingHook
from estimator_train.keras import model_to_estimator
from estimator_train.run_config import RunConfig


def train(settings, data, model_dir, max_steps, gpus, replicas, steps_per_loop, save_checkpoints_steps):
    """Trains in `model_dir` up to `max_steps`, and evaluates."""
    with one_line_errors():
        strategy = distribution.gpus(gpus) if gpus else distribution.cpu_replicas(replicas) if replicas else None
        config = RunConfig(
            model_dir=model_dir,
            tf_random_seed=settings.seed,
            train_distribute=strategy,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=None if save_checkpoints_steps else 600,
            steps_per_loop=steps_per_loop,
        )
    estimator = _estimator(settings, config, settings.weights)
    train_input_fn, eval_input_fn = _input_fns(settings, data)
    with one_line_errors():
        settings.save(model_dir)

    timing = TimingHook(model_dir)
    _say_plan(settings, data, model_dir, max_steps, strategy)
    with _one_line_run_errors():
        estimator.train(train_input_fn, hooks=[timing, ProgressHook(max_steps)], max_steps=max_steps)
        _say_timing(timing.summary(), model_dir, max_steps)
        _say_metrics(estimator.latest_checkpoint(), estimator.evaluate(eval_input_fn))


def evaluate(settings, model_dir, checkpoint_paths):
    """Evaluates the checkpoints and returns a dict of metrics for each."""
    with one_line_errors():
        data = datasets.open_dataset(settings.dataset, settings.data_dir) if settings.dataset else None
    estimator = _estimator(settings, RunConfig(model_dir=model_dir), weights="none")
    _, eval_input_fn = _input_fns(settings, data)
    with _one_line_run_errors():
        return [estimator.evaluate(eval_input_fn, checkpoint_path=path) for path in checkpoint_paths]


def checkpoint_paths(model_dir, every):
    """Path prefixes of every checkpoint that the run in `model_dir` keeps, or of the newest alone."""
    with _one_line_run_errors():
        newest = checkpoints.latest_intact(model_dir)
    if newest is None:
        raise click.ClickException(f"--model-dir {model_dir} has no checkpoint; train first")
    if not every:
        return [newest]
    paths = tf.train.get_checkpoint_state(model_dir).all_model_checkpoint_paths
    damages = {path: checkpoints.damage_of(path) for path in paths}
    for path, damage in damages.items():
        if damage is not None:
            click.echo(f"{path} is left out: {damage}", err=True)
    return [path for path in paths if damages[path] is None]


def _estimator(settings, config, weights):
    if settings.seed is not None:
        keras.utils.set_random_seed(settings.seed)
    if ":" in settings.model:
        offered = {
            "image_size": settings.image_size,
            "num_classes": len(settings.class_names) or None,
            "weights": weights,
        }
        build = _load_function(settings.model)
        named = inspect.signature(build).parameters
        model = build(**{name: value for name, value in offered.items() if name in named})
    else:
        with one_line_errors():
            model = models.build_model(
                settings.model, image_size=settings.image_size, num_classes=len(settings.class_names), weights=weights
            )
    with one_line_errors():
        return model_to_estimator(model, config=config)


def _input_fns(settings, data):
    """The training and the evaluation input_fn. The training data of a data set is endless: max_steps ends it."""
    if settings.input_fn:
        return _load_function(settings.input_fn), _load_function(settings.eval_input_fn)
    sizes = {"image_size": settings.image_size, "batch_size": settings.batch_size}
    return data.train_input_fn(**sizes, num_epochs=None, seed=settings.seed), data.eval_input_fn(**sizes)


def _load_function(reference):
    """The function of FILE:FUNCTION."""
    path, _, name = reference.rpartition(":")
    return getattr(_load_file(path), name)


@functools.cache
def _load_file(path):
    """The module of a Python file; it is run once, and can import its neighbours, as a script can."""
    sys.path.insert(0, os.path.dirname(path))
    name = f"estimator_train_user_{os.path.splitext(os.path.basename(path))[0]}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _one_line_run_errors():
    """Of the errors of a run, those that the user's files are to blame for end as one line with exit code 2."""
    try:
        yield
    except checkpoints.CheckpointError as error:
        raise click.ClickException(str(error)) from error
    except tf.errors.InvalidArgumentError as error:
        undecodable = re.search(r"\[([^][]+)\] \[(cannot be decoded[^];]*; delete it)", str(error))
        if undecodable is None:
            raise
        raise click.ClickException(" ".join(undecodable.groups())) from error


def _say_plan(settings, data, model_dir, max_steps, strategy):
    if data:
        click.echo(
            f"{data.name}: {data.train_examples} images to train on and {data.eval_examples} to evaluate on, "
            f"in {len(data.class_names)} classes ({', '.join(data.class_names)})"
        )
    replicas = strategy.num_replicas_in_sync if strategy else 1
    until = f"to step {max_steps}" if max_steps else "until the data ends"
    per_step = f"{settings.batch_size} x {replicas} images a step" if data else f"{replicas} batches a step"
    click.echo(f"{settings.model}: training {until}, {per_step}, in {model_dir}")


def _say_timing(timing, model_dir, max_steps):
    if not timing["warmup_steps"]:
        click.echo(f"{model_dir} is trained to step {max_steps} already" if max_steps else "the input_fn gave no data")
        return
    parts = [f"{timing['steps'] + timing['warmup_steps']} steps"]
    if timing["examples_per_second"]:
        parts.append(f"{timing['examples_per_second']:.1f} examples/s")
        parts.append(f"{timing['input_wait_share']:.0%} of the time spent waiting for input")
    click.echo(f"trained {', '.join(parts)}")


def _say_metrics(checkpoint, metrics):
    values = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items() if name != "global_step")
    click.echo(f"evaluated {checkpoint}: {values}")
