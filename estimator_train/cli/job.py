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
import tqdm

from estimator_train import checkpoints, datasets, distribution, models
from estimator_train.cli.settings import one_line_errors
from estimator_train.early_stopping import stop_if_no_decrease_hook
from estimator_train.export import TensorServingInputReceiver, build_raw_serving_input_receiver_fn
from estimator_train.exporter import BestCheckpointExporter, Exporter
from estimator_train.hooks import ProgressHook, TimingHook
from estimator_train.input_fns.image_files import decode_files, decode_image
from estimator_train.keras import model_to_estimator
from estimator_train.model_copy import finalize_state
from estimator_train.run_config import RunConfig
from estimator_train.training import EvalSpec, TrainSpec, train_and_evaluate

v1 = tf.compat.v1


def train(
    settings, data, model_dir, max_steps, gpus, replicas, steps_per_loop, save_checkpoints_steps,
    evaluate_every, early_stopping, keep_best,
):  # fmt: skip
    """Trains in `model_dir` up to `max_steps`, and evaluates: at the end, and every `evaluate_every` steps."""
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
    hooks = [timing, ProgressHook(max_steps)]
    with _one_line_run_errors():
        if evaluate_every is None:
            estimator.train(train_input_fn, hooks=hooks, max_steps=max_steps)
            _say_timing(timing.summary(), model_dir, max_steps)
            _say_metrics(estimator.latest_checkpoint(), estimator.evaluate(eval_input_fn))
            return
        if early_stopping:
            # Asked after every step, it stops at that of the evaluation, and not one interval later.
            patience = early_stopping * evaluate_every
            hooks.append(stop_if_no_decrease_hook(estimator, "loss", patience, run_every_secs=None, run_every_steps=1))
        exporters = [_SayMetrics(), *([BestCheckpointExporter()] if keep_best else [])]
        train_spec = TrainSpec(train_input_fn, max_steps, hooks)
        eval_spec = EvalSpec(eval_input_fn, steps=None, exporters=exporters, every_steps=evaluate_every)
        metrics, _ = train_and_evaluate(estimator, train_spec, eval_spec)
        _say_timing(timing.summary(), model_dir, max_steps)
        step = metrics["global_step"]
        if early_stopping and data and step < max_steps:  # a data set is endless: nothing else has stopped it
            click.echo(f"stopped at step {step}: the loss did not fall in {early_stopping} evaluations")
        _say_metrics(estimator.latest_checkpoint(), metrics)
        if keep_best:
            best = tf.train.latest_checkpoint(os.path.join(model_dir, "export", exporters[-1].name))
            click.echo(f"the best checkpoint is kept as {best}")


def evaluate(settings, model_dir, checkpoint_paths):
    """Evaluates the checkpoints and returns a dict of metrics for each."""
    with one_line_errors():
        data = datasets.open_dataset(settings.dataset, settings.data_dir) if settings.dataset else None
    estimator = _estimator(settings, RunConfig(model_dir=model_dir), weights="none")
    _, eval_input_fn = _input_fns(settings, data)
    with _one_line_run_errors():
        return [estimator.evaluate(eval_input_fn, checkpoint_path=path) for path in checkpoint_paths]


def predict(settings, model_dir, checkpoint, paths):
    """The probabilities of the classes, a list of floats, by path, of those images that can be decoded."""
    estimator = _estimator(settings, RunConfig(model_dir=model_dir), weights="none")
    decoded = []

    def load(paths):
        images, places = decode_files(paths, settings.image_size)
        return images, tf.gather(paths, places)

    def note(paths):
        decoded.extend(path.decode() for path in paths)
        return len(paths) > 0

    def input_fn():
        batches = tf.data.Dataset.from_tensor_slices(paths).batch(settings.batch_size)
        batches = batches.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        batches = batches.filter(lambda _, paths: tf.ensure_shape(tf.numpy_function(note, [paths], tf.bool), ()))
        return batches.map(lambda images, _: images).prefetch(tf.data.AUTOTUNE)

    with _one_line_run_errors():
        predictions = [
            _probabilities(prediction, settings.class_names)
            for prediction in estimator.predict(input_fn, checkpoint_path=checkpoint)
        ]
    return dict(zip(decoded, predictions, strict=True))


def export(settings, model_dir, checkpoint, file_format, folder):
    """Writes the model with the state of the checkpoint into `folder`, and returns the path there."""
    if file_format == "saved_model":
        estimator = _estimator(settings, RunConfig(model_dir=model_dir), weights="none")
        receiver_fn = _image_receiver_fn(settings.image_size) if settings.dataset else _receiver_fn(settings)
        with _one_line_run_errors():
            return os.fsdecode(estimator.export_saved_model(folder, receiver_fn, checkpoint_path=checkpoint))
    model = _trained_model(settings, checkpoint)
    path = os.path.join(folder, "weights.h5" if file_format == "weights" else "model.keras")
    try:
        with one_line_errors():  # Keras cannot save a model without variables, for one
            model.save_weights(path) if file_format == "weights" else model.save(path)
    except NotImplementedError as error:
        message = f"{settings.model}: its model has no get_config(); add it, or export saved_model or weights"
        raise click.ClickException(message) from error
    return path


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


def _probabilities(prediction, class_names):
    """The values of the only output, one for each class."""
    values, *others = prediction.values()
    if others or values.shape != (len(class_names),):
        shapes = ", ".join(f"{name} {value.shape}" for name, value in prediction.items())
        raise click.ClickException(
            f"the model gives {shapes} for an image, and predict needs one probability for each of the "
            f"{len(class_names)} classes"
        )
    return values.tolist()


def _image_receiver_fn(image_size):
    """Takes encoded images, which are decoded as in training, or, at `images:serving_default`, decoded ones."""

    def receiver_fn():
        image_bytes = v1.placeholder(tf.string, [None], name="image_bytes")
        spec = tf.TensorSpec((*image_size, 3), tf.float32)
        decoded = tf.map_fn(lambda encoded: decode_image(encoded, image_size), image_bytes, fn_output_signature=spec)
        images = v1.placeholder_with_default(decoded, [None, *image_size, 3], name="images")
        return TensorServingInputReceiver(images, {"image_bytes": image_bytes}, {"images": {"images": images}})

    return receiver_fn


def _receiver_fn(settings):
    """Takes the inputs of the Keras model by their names."""
    model = _model(settings, weights="none")
    if not model.inputs:
        raise click.ClickException(f"the model {model.name} does not tell its inputs; give it Input layers")
    return build_raw_serving_input_receiver_fn(dict(zip(model.input_names, model.inputs, strict=True)))


def _trained_model(settings, checkpoint):
    """The compiled Keras model with all that the checkpoint holds, the optimizer's state included."""
    model = _model(settings, weights="none")
    root = tf.train.Checkpoint(root=model, estimator_global_step=tf.Variable(0, dtype=tf.int64))
    with _one_line_run_errors():
        checkpoints.restore(root, model, checkpoint, trains=True)
    if model.built and isinstance(model.optimizer, keras.optimizers.Optimizer):
        model.optimizer.build(model.trainable_variables)  # the variables take their values as they are made
        if getattr(model.optimizer, "use_ema", False):
            model.optimizer.finalize_variable_values(model.trainable_variables)  # the averages, as in evaluation
    finalize_state(model)
    return model


class _SayMetrics(Exporter):
    """Says the metrics of evaluations on the way."""

    name = "say_metrics"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if not is_the_final_export:
            with tqdm.tqdm.external_write_mode():  # a progress bar makes room
                _say_metrics(checkpoint_path, eval_result)


def _estimator(settings, config, weights):
    model = _model(settings, weights)
    with one_line_errors():
        return model_to_estimator(model, config=config)


def _model(settings, weights):
    """The compiled Keras model of the settings."""
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
        return build(**{name: value for name, value in offered.items() if name in named})
    with one_line_errors():
        return models.build_model(
            settings.model, image_size=settings.image_size, num_classes=len(settings.class_names), weights=weights
        )


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
