"""Builds the Estimator, input_fns and checkpoint paths of a run from its settings, for all commands."""

import functools
import importlib.util
import inspect
import logging
import math
import os
import sys

import click
import cloudpickle
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train import distribution
from estimator_train._engine.host.files import printable
from estimator_train.app import datasets, models
from estimator_train.app.errors import SettingError, one_line_errors
from estimator_train.app.models.compilation import recompile
from estimator_train.app.running.errors import run_errors
from estimator_train.app.running.selected_checkpoint import check_damage
from estimator_train.app.runs.spec import optimization_of
from estimator_train.app.runs.values import check_function

_LOG_LEVELS = {"quiet": "ERROR", "verbose": "INFO"}


def build_estimator(settings, model_dir):
    """Returns an Estimator of the settings' model, for restoring a checkpoint."""
    return estimator_of(build_model(settings), et.RunConfig(model_dir=model_dir))


def estimator_of(model, config):
    with one_line_errors():
        return et.model_to_estimator(model, config=config)


def trained_weights(model):
    """Returns how many weights of a Keras model are trained; None before it has any."""
    return sum(math.prod(each.shape) for each in model.trainable_weights) or None


def build_model(settings, training=None, last_step=None, *, first_step=0, resumes=False):
    """Returns the compiled Keras model of the settings, to be trained up to `last_step`, from `first_step` in a phase.

    Without `training`, the model is meant for restoring a checkpoint: its weights are random, and its layers are frozen
    as in the last phase. The weights are also random if the training `resumes` from a checkpoint, but a FILE:FUNCTION
    gets its initial weights, because it may freeze layers that have some.
    """
    if training is None:
        distribution.let_memory_grow()  # a training on the same GPUs needs the rest
    if settings.phases:
        settings, _ = settings.in_phases()[-1]
    loads = training is not None and (not resumes or ":" in settings.model)
    _say_building(settings, loads)
    model = _build_as_defined(settings, load_weights=loads)
    with one_line_errors():
        recompile(model, optimization_of(settings, training), last_step, first_step=first_step)
    return model


def _say_building(settings, loads):
    """Says on a terminal that a model is built, which may take a minute, unless --quiet hides all but errors."""
    if not (sys.stderr.isatty() and tf.get_logger().isEnabledFor(logging.WARNING)):
        return
    text = f"building {settings.model}"
    if loads and settings.initial_weights not in (None, "none"):
        text += f", with weights from {settings.initial_weights}"
    _say_once(text)


@functools.cache
def _say_once(text):
    click.echo(text, err=True)


def _build_as_defined(settings, load_weights):
    if settings.seed is not None:
        keras.utils.set_random_seed(settings.seed)
    arguments = {name: getattr(settings, name) for name in ("image_size", "weights", "dropout", "task")}
    arguments["num_classes"] = _outputs(settings)
    if ":" in settings.model:
        if not load_weights:
            arguments["weights"] = "none"
        return _call_builder(settings, arguments)
    with one_line_errors():
        about = {"freeze": settings.freeze, "label_moments": settings.label_moments, "load_weights": load_weights}
        return models.build_model(settings.model, **arguments, **about)


def _call_builder(settings, offered):
    """Returns the model of the FILE:FUNCTION of --model, called with the arguments that it names, or its defaults."""
    build = load_function(settings.model)
    named = inspect.signature(build).parameters
    if settings.dropout is not None and "dropout" not in named:
        raise SettingError("{dropout}: {0} takes no argument dropout; add it, and apply it", settings.model)
    needed = [name for name, each in named.items() if each.default is each.empty]
    given = {name: value for name, value in offered.items() if name in named and (value is not None or name in needed)}
    model = build(**given)
    if model is None:
        raise SettingError("{0} returns None; let it return the model", settings.model)
    return model


def _outputs(settings):
    """Returns the number of the model's outputs; None for an input_fn, whose classes are unknown."""
    if settings.task == "regression":
        return 1
    return len(settings.class_names) or None


def build_train_input_fn(settings, data, training):
    """Returns the training input_fn. A dataset's is endless; max_steps ends it."""
    if settings.input_fn:
        train_input_fn = load_function(settings.input_fn)
    else:
        options = _options(settings, training.cache)
        with one_line_errors():  # a dataset may be downloaded here
            train_input_fn = data.train_input_fn(**options, num_epochs=None, seed=settings.seed)
    if training.class_weights:
        weights = datasets.class_weights(data, training.class_weights)
        train_input_fn = et.input_fns.class_weighted(train_input_fn, weights)
    if training.augment:
        train_input_fn = et.input_fns.augmented(train_input_fn, training.augment)
    return train_input_fn


def build_sample_input_fn(settings, data, number):
    """Returns an input_fn of batches of a few training images of the dataset, in any order that costs nothing."""
    options = _options(settings, cache=None) | {"batch_size": number, "num_epochs": 1, "seed": settings.seed or 0}
    shuffle = data.train.labels is not None  # others would be read into a buffer first
    return data.train.input_fn(options.pop("image_size"), shuffle=shuffle, **options)


def build_eval_input_fn(settings, data, cache=None):
    if settings.input_fn:
        return load_function(settings.eval_input_fn)
    if cache == "features":  # the whole model is evaluated
        cache = None
    with one_line_errors():
        return data.eval_input_fn(**_options(settings, cache))


def _options(settings, cache):
    """Returns the arguments of a dataset's input_fns; only some datasets support those that are not usual."""
    options = {"image_size": settings.image_size, "batch_size": settings.batch_size}
    if cache:
        options["cache"] = cache
    if settings.fast:
        options["fast"] = True
    if settings.resize or settings.ignore_orientation:
        options |= settings.decoding
    return options


def local_strategy(training):
    """Returns the strategy for one process with the GPUs or CPU replicas of the training; None for a single device."""
    if training.gpus:
        return distribution.gpus(training.gpus, all_reduce=training.all_reduce)
    if training.replicas:
        try:
            return distribution.cpu_replicas(training.replicas, all_reduce=training.all_reduce)
        except RuntimeError as error:  # in Python, TensorFlow may have started with fewer
            raise SettingError("{replicas} {0}: {1}", training.replicas, error) from error
    distribution.let_memory_grow()
    return None


def set_verbosity(verbosity):
    """Sets TensorFlow's log level for "quiet", "normal" or "verbose"."""
    if verbosity in _LOG_LEVELS:
        tf.get_logger().setLevel(_LOG_LEVELS[verbosity])


def checkpoint_paths(run, selected, every=False):
    """Returns the path prefix of the selected checkpoint; if it is None, of the newest or of every intact one."""
    if selected:
        check_damage(run, selected, run.damage_of(selected))
        return [selected]
    with run_errors():
        newest = run.newest
    if newest is None:
        raise SettingError("{model_dir} {0} has no checkpoint; train first", run.model_dir)
    if not every:
        return [newest]
    for path, damage in run.damages.items():
        if damage is not None:
            click.echo(printable(f"{path} is left out: {damage}"), err=True)
    return [path for path, damage in run.damages.items() if damage is None]


def load_function(reference):
    """Returns the function of FILE:FUNCTION, which may have been removed since the run began."""
    check_function(reference, "the function of the run,")
    path, _, name = reference.rpartition(":")
    return getattr(_load_file(path), name)


@functools.cache
def _load_file(path):
    """Imports a Python file as a module, once; like a script, it can import modules next to it."""
    sys.path.insert(0, os.path.dirname(path))
    name = f"estimator_train_user_{os.path.splitext(os.path.basename(path))[0]}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    cloudpickle.register_pickle_by_value(module)  # other processes cannot import it
    spec.loader.exec_module(module)
    return module
