"""What a training is going to do, in lines to read."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from estimator_train.distribution.cluster_task import this_task
from estimator_train.host.model_dirs import checkpoints_among


def newest_checkpoint(model_dir):
    """Name of the newest checkpoint in `model_dir`, or None; whether it is whole, TensorFlow finds out later."""
    state = Path(model_dir, "checkpoint")
    text = state.read_text(errors="replace") if state.is_file() else ""
    named = re.search(r'^model_checkpoint_path: "(.+)"', text, re.MULTILINE)
    if named:
        return Path(named.group(1)).name
    names = checkpoints_among(os.listdir(model_dir) if os.path.isdir(model_dir) else [])
    return names[-1] if names else None


def steps_per_epoch(settings, training, data):
    """Global steps that go through the training data once."""
    return math.ceil(data.train_examples / (settings.batch_size * _batches(training)))


def plan(settings, training, data, model_dir, last_step):
    """The lines; `data` is None for an input_fn, and `last_step` is, too, where training ends with its data."""
    checkpoint = newest_checkpoint(model_dir)
    facts = {
        "data": _data(settings, data),
        "classes": _classes(data),
        "files": _files(settings, data),
        "model": _model(settings),
        "steps": _steps(settings, training, data, last_step),
        "batch": _batch(settings, training, data),
        "devices": _devices(training),
        "checkpoints": _checkpoints(training),
        "evaluation": _evaluation(training),
        "callbacks": training.callbacks,
        "log": ", ".join(training.log) if training.log else None,
        "seed": settings.seed,
        "folder": f"{model_dir}, going on from {checkpoint}" if checkpoint else model_dir,
    }
    return [f"{name:<12} {text}" for name, text in facts.items() if text is not None]


def _data(settings, data):
    if data is None:
        return f"{settings.input_fn}, and {settings.eval_input_fn} to evaluate on"
    return (
        f"{data.name}: {data.train_examples} images to train on and {data.eval_examples} to evaluate on, "
        f"in {len(data.class_names)} classes"
    )


def _classes(data):
    """The first ten classes, and how many images each has to train and to evaluate on, where that is known."""
    if data is None:
        return None
    counts = data.class_counts()
    shown = list(data.class_names[:10])
    if counts:
        shown = [f"{name} {counts['train'][name]} + {counts['eval'][name]}" for name in shown]
    return ", ".join([*shown, "…"] if len(data.class_names) > 10 else shown)


def _files(settings, data):
    paths = [*getattr(data, "train_paths", []), *getattr(data, "eval_paths", [])]  # of image files
    return os.path.commonpath(paths) if paths else settings.data_dir


def _model(settings):
    size = f" for images of {'x'.join(map(str, settings.image_size))}" if settings.image_size else ""
    weights = f", starting from {settings.weights}" if settings.weights not in (None, "none") else ""
    return f"{settings.model}{size}{weights}"


def _steps(settings, training, data, last_step):
    if last_step is None:
        return "until the data ends"
    if data is None:
        return last_step
    per_epoch = steps_per_epoch(settings, training, data)
    return f"{last_step}: {last_step / per_epoch:.4g} epochs of {per_epoch}"


def _batch(settings, training, data):
    replicas = _replicas(training)
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
    return "the first GPU, or the CPU where there is none"


def _checkpoints(training):
    every = math.gcd(training.save_checkpoints_steps or 0, training.evaluate_every or 0)
    return f"every {every} steps and at the end" if every else "every 10 minutes and at the end"


def _evaluation(training):
    if not training.evaluate_every:
        return "at the end"
    stop = f"; {training.early_stopping} without a lower loss end it" if training.early_stopping else ""
    best = "; the best checkpoint is kept" if training.keep_best else ""
    return f"every {training.evaluate_every} steps and at the end{stop}{best}"


def _batches(training):
    """How many batches a step takes."""
    return training.accumulate_steps * _replicas(training)


def _replicas(training):
    return this_task().num_training_tasks * (training.gpus or training.replicas or 1)
