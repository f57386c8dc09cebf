"""Describes in a few lines what training is going to do."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from estimator_train._engine.distribution.cluster_task import this_task
from estimator_train._engine.host.model_dirs import checkpoints_among
from estimator_train._engine.host.paths import as_path, is_remote
from estimator_train.app import datasets
from estimator_train.app.cli.monitor import Monitor
from estimator_train.app.cli.settings import optimization_of
from estimator_train.app.datasets.images import HELD_OUT
from estimator_train.app.models.backbones import CLASSES


def newest_checkpoint(model_dir):
    """Returns the name of the newest checkpoint in `model_dir`, or None; TensorFlow checks later that it is intact."""
    folder = as_path(model_dir)
    state = folder / "checkpoint"
    text = state.read_text(errors="replace") if state.is_file() else ""
    named = re.search(r'^model_checkpoint_path: "(.+)"', text, re.MULTILINE)
    if named:
        return Path(named.group(1)).name
    names = checkpoints_among(path.name for path in (folder.iterdir() if folder.is_dir() else ()))
    return names[-1] if names else None


def steps_per_epoch(settings, training, data):
    """Returns the number of global steps in one pass over the training data."""
    return math.ceil(data.train_examples / (settings.batch_size * _batches(training)))


def plan(settings, training, data, model_dir, last_step, variables):
    """Returns the lines of the plan.

    Args:
      data: the dataset, or None for an input_fn.
      last_step: global step at which training ends; None if it ends with the input_fn's data.
      variables: dict of facts in the plan to the environment variables that set them.
    """
    checkpoint = newest_checkpoint(model_dir)
    facts = {
        "data": _data(settings, data),
        _kind(data): _classes(data),
        "files": _files(settings, data),
        "model": _model(settings, resumes=checkpoint is not None),
        "phases": settings.phases,
        "steps": _steps(settings, training, data, last_step),
        "batch": _batch(settings, training, data),
        "devices": _devices(training),
        "optimizer": _optimizer(settings, training),
        "rate": None if settings.phases else _learning_rate(settings, training),
        "augmentation": training.augment,
        "class weight": _class_weights(training, data),
        "checkpoints": _checkpoints(training),
        "evaluation": _evaluation(training, data),
        "callbacks": training.callbacks,
        "log": ", ".join(training.log) if training.log else None,
        "seed": settings.seed,
        "folder": f"{model_dir}, continuing from {checkpoint}" if checkpoint else model_dir,
    }
    for name, variable in variables.items():
        facts[name] = f"{facts[name]}, from {variable}"
    return [f"{name:<12} {text}" for name, text in facts.items() if text is not None]


def _data(settings, data):
    if data is None:
        return f"{settings.input_fn}, and {settings.eval_input_fn} to evaluate on"
    return (
        f"{data.name}: {data.train_examples} images to train on and {data.eval_examples} to evaluate on, "
        f"{_labels(data)}"
    )


def _labels(data):
    if data.task == "regression":
        mean, deviation = data.label_moments()
        return f"with numbers of {mean:.4g} ± {deviation:.4g}"
    return f"{'with' if data.task == 'multilabel' else 'in'} {len(data.class_names)} {_kind(data)}"


def _kind(data):
    return "labels" if data is not None and data.task == "multilabel" else "classes"


def _classes(data):
    """Lists the first ten classes with their numbers of training and evaluation images, if known."""
    if data is None or not data.class_names:
        return None
    counts = data.class_counts()
    shown = list(data.class_names[:10])
    if counts:
        shown = [f"{name} {counts['train'][name]} + {counts['eval'][name]}" for name in shown]
    return ", ".join([*shown, "…"] if len(data.class_names) > 10 else shown)


def _files(settings, data):
    paths = [path for side in ((data and data.image_paths()) or {}).values() for path in side]
    left_out = getattr(data, "left_out", ())
    local = paths and not any(map(is_remote, paths))
    where = os.path.commonpath(paths) if local else settings.data_dir
    if local and not os.path.exists(where):
        return f"{where}, drawn when training starts"
    return f"{where}, without {', '.join(left_out)}" if left_out else where


def _model(settings, resumes):
    size = f" for images of {'x'.join(map(str, settings.image_size))}" if settings.image_size else ""
    start = settings.weights or ("imagenet" if settings.model in CLASSES else None)
    weights = f", starting from {'random weights' if start == 'none' else start}" if start and not resumes else ""
    freeze = f", freeze={settings.freeze}" if settings.freeze else ""
    dropout = f", dropout={settings.dropout:g}" if settings.dropout is not None else ""
    return f"{settings.model}{size}{weights}{freeze}{dropout}"


def _steps(settings, training, data, last_step):
    if last_step is None:
        return "until the data ends"
    if data is None:
        return last_step
    per_epoch = steps_per_epoch(settings, training, data)
    epochs = f"{last_step / per_epoch:.4g}"
    return f"{last_step}: {epochs} epoch{'s' * (epochs != '1')} of {per_epoch}"


def _batch(settings, training, data):
    replicas = training.num_replicas
    on_each = f" on each of {replicas} replicas" if replicas > 1 else ""
    times = f", {training.accumulate_steps} times" if training.accumulate_steps > 1 else ""
    if data is None:
        return f"one of the input_fn's{on_each}{times}" if on_each or times else "the input_fn's"
    a_step = f": {settings.batch_size * _batches(training)} a step" if on_each or times else ""
    return f"{settings.batch_size} images{on_each}{times}{a_step}"


def _devices(training):
    if this_task().num_training_tasks > 1:
        each = f"the first {training.gpus} GPUs of each" if training.gpus else "one device each"
        return f"{this_task().num_training_tasks} workers, {each}"
    if training.replicas:
        return f"{training.replicas} replicas on the CPU"
    if training.gpus:
        return f"the first {training.gpus} GPUs" if training.gpus > 1 else "the first GPU"
    return "the first GPU, or the CPU if there is none"


def _optimizer(settings, training):
    """Lists the optimizer settings that flags change, except the learning rate; None if there are none."""
    optimization = optimization_of(settings, training)
    named = {
        "weight decay": optimization.weight_decay,
        "gradients clipped to": optimization.clip_norm,
        "averages with momentum": optimization.ema,
        "labels smoothed by": optimization.label_smoothing,
    }
    asked = [f"{name} {value:g}" for name, value in named.items() if value is not None]
    return ", ".join([optimization.optimizer or "the model's", *asked]) if optimization.optimizer or asked else None


def _learning_rate(settings, training):
    """Describes the rate and its schedule; with several replicas always, to say whether the rate is scaled by them."""
    optimization, replicas = optimization_of(settings, training), training.num_replicas
    rate, of_optimizer = (
        optimization.learning_rate,
        "the model's" if optimization.optimizer is None else "Keras' default",
    )
    text = of_optimizer if rate is None else f"{rate:g}"
    if training.scale_learning_rate:
        text += f", times {replicas} replicas" + (f": {rate * replicas:g}" if rate else "")
    elif replicas > 1:
        text += f", not scaled by the {replicas} replicas"
    elif rate is None and optimization.schedule is None and not optimization.warmup_steps:
        return None
    text += f", {optimization.schedule}" if optimization.schedule else ""
    return text + (f", {optimization.warmup_steps} steps of warm-up" if optimization.warmup_steps else "")


def _class_weights(training, data):
    if not training.class_weights:
        return None
    weights = datasets.class_weights(data, training.class_weights)
    shown = [f"{name} {weight:.4g}" for name, weight in zip(data.class_names[:10], weights, strict=False)]
    return ", ".join([*shown, "…"] if len(weights) > 10 else shown)


def _checkpoints(training):
    every = math.gcd(training.save_checkpoints_steps or 0, training.evaluate_every or 0)
    return f"every {every} steps and at the end" if every else "every 10 minutes and at the end"


def _evaluation(training, data):
    if not training.evaluate_every:
        return "at the end"
    monitor = Monitor.of(training.monitor)
    without = f"without a {monitor.better} {monitor.metric}"
    stop = f"; {training.early_stopping} {without} end it" if training.early_stopping else ""
    best = f"; the checkpoint of the best {monitor.metric} is kept" if training.keep_best else ""
    unused = [name for name in getattr(data, "left_out", ()) if name in HELD_OUT] if stop or best else []
    same = f"; on the same images as the final metrics, since {unused[0]} is not used" if unused else ""
    return f"every {training.evaluate_every} steps and at the end{stop}{best}{same}"


def _batches(training):
    """Returns the number of batches per step."""
    return training.accumulate_steps * training.num_replicas
