"""Describes in a few lines what training is going to do."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from estimator_train._engine.host import device_names
from estimator_train._engine.host.cluster_task import this_task
from estimator_train._engine.host.gpu_devices import is_gpu_there
from estimator_train._engine.host.paths import is_remote
from estimator_train.app import datasets
from estimator_train.app.datasets.bit_depth import brightest_if_dark
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.datasets.images import counted_endings
from estimator_train.app.errors import SpelledError, spelled
from estimator_train.app.models.defaults import with_defaults
from estimator_train.app.models.optimization import TESTED_RATES, Optimization
from estimator_train.app.running.image_cache import most_bytes
from estimator_train.app.running.messages import listed
from estimator_train.app.running.planned_run import PlannedRun
from estimator_train.app.runs.fields import lines_of, phrases_of, text_of
from estimator_train.app.runs.monitor import Monitor
from estimator_train.app.runs.spec import Settings, Training, optimization_of

_OF_DATASET = "the dataset's default"
_UNEVEN = 4  # the ratio of two classes above which the plan mentions class weights


def plan(run: PlannedRun) -> list[str]:
    """Returns the lines of the plan: those that several settings make together, then one for each other setting."""
    checkpoint = run.progress.checkpoint
    together = _together(run, resumes=checkpoint is not None)
    facts = together | lines_of(run.settings) | lines_of(run.training) | together  # in this order
    folder = run.model_dir
    if checkpoint:
        folder += f", continuing from {checkpoint}"
    if run.finds_rate:
        folder += ", for the plot learning_rate.png; nothing else is kept"
    facts["folder"] = folder
    for name, source in run.sources.items():
        facts[name] = f"{facts[name]}, from {source}"
    return [f"{name:<12} {text}" for name, text in facts.items() if text is not None]


def _together(run: PlannedRun, resumes: bool) -> dict[str, str | None]:
    """Returns {name: text} of the lines that several settings make together; None instead of a text leaves one out."""
    settings, training, data = run.settings, run.training, run.data
    default = with_defaults(dataclasses.asdict(settings) | dataclasses.asdict(training))
    kind = "classes"
    if data is not None and data.task == "multilabel":
        kind = "labels"
    together: dict[str, str | None] = {
        "data": _data(settings, data, run.missing),
        "devices": _devices(training),
        kind: _classes(data),
        "lacking": _lacking(data),
        **_doubts(data),
        "validation": _validation(settings, training, data),
        "files": _files(settings, data),
        "columns": _columns(data),
        "pixels": _pixels(data),
        "model": _model(dataclasses.replace(settings, freeze=default["freeze"]), resumes),
        "steps": _steps(run) + _nothing_left(run),
        "batch": _batch(settings, training),
        "optimizer": _optimizer(settings, training, default["optimizer"]),
        "rate": _learning_rate(settings, training, default),
        "class weight": _class_weights(training, data),
        "cache": _cache(run),
        "checkpoints": _checkpoints(training),
        "evaluation": _evaluation(settings, training, data),
    }
    if run.finds_rate:
        together |= dict.fromkeys(("validation", "checkpoints", "evaluation"))
        together["rate"] = "rises from {:g} to {:g}, or until the loss diverges".format(*TESTED_RATES)
    return together


def _data(settings: Settings, data: Dataset | None, missing: str | SpelledError | None) -> str:
    if missing:
        return spelled("{0}: {1}", settings.dataset, missing)
    if data is None:
        return f"{settings.input_fn}, and {settings.eval_input_fn} to evaluate on"
    return (
        f"{data.name}: {data.train_examples} images to train on and {data.eval_examples} to evaluate on, "
        f"{_labels(data)}"
    )


def _labels(data: Dataset) -> str:
    if moments := data.label_moments():
        mean, deviation = moments
        return f"with numbers of {mean:.4g} ± {deviation:.4g}"
    if data.task == "multilabel":
        return f"with {len(data.class_names)} labels"
    return f"in {len(data.class_names)} classes"


def _classes(data: Dataset | None) -> str | None:
    """Lists the first classes with their numbers of training, validation and evaluation images, if known."""
    if data is None or not data.class_names:
        return None
    counts = data.class_counts()
    if not counts:
        return listed(data.class_names)
    sides = [counts[side] for side in ("train", "validation", "eval") if side in counts]
    return listed([f"{name} {' + '.join(str(side[name]) for side in sides)}" for name in data.class_names])


def _lacking(data: Dataset | None) -> str | None:
    """Says which classes have no images on a side, which may happen to those with few; None if all have some."""
    uses = {"train": "to train on", "validation": "to choose on", "eval": "to evaluate on"}
    lacking = {}
    for side, counts in ((data and data.class_counts()) or {}).items():
        if names := [name for name, number in counts.items() if not number]:
            lacking[side] = f"no images {uses[side]} of {listed(names)}"
    return "; ".join(lacking.values()) or None


def _doubts(data: Dataset | None) -> dict[str, str]:
    """Returns lines about labels that look like mistakes."""
    if data is None:
        return {}
    from estimator_train.app.datasets.doubtful_labels import doubtful_labels  # imports NumPy, which --help does without

    return doubtful_labels(data)


def _validation(settings: Settings, training: Training, data: Dataset | None) -> str | None:
    """Says which images choose a checkpoint; None if there are none but the evaluation images, or no choice."""
    if data is None:
        return None
    if not data.validation_examples:
        if training.early_stopping or training.keep_best:
            return "the evaluation images choose, so the final numbers are too good"
        return None
    source = data.validation_name
    if settings.validation:
        source = f"a share of {settings.validation:g} of the training images"
        if settings.split:
            source += ", by patient"
    use = spelled("not used without {evaluate_every}")
    if training.evaluate_every:
        use = "for the evaluations during training"
    return f"{_counted(data.validation_examples, 'image')}, {source}, {use}"


def judging(run: PlannedRun) -> str | None:
    """Says in a sentence which images chose the checkpoint and which judge it; None if nothing is chosen."""
    training, data = run.training, run.data
    if data is None or not (training.early_stopping or training.keep_best):
        return None
    if not run.validation_examples:
        return (
            f"The {data.eval_examples} evaluation images chose the checkpoint and judged it: its numbers are too good."
        )
    chose = f"{run.validation_examples} validation images"
    return f"{chose} chose the checkpoint; {data.eval_examples} others, which did not, judged it."


def _image_paths(data: Dataset | None) -> dict[str, list[str]]:
    return (data and data.image_paths()) or {}


def _files(settings: Settings, data: Dataset | None) -> str | None:
    paths = [path for side in _image_paths(data).values() for path in side]
    where = settings.data_dir
    if paths and not any(map(is_remote, paths)):
        if any(map(os.path.isabs, paths)):  # a manifest may name others from its own folder
            paths = list(map(os.path.abspath, paths))
        where = os.path.commonpath(paths) or os.curdir
        if not os.path.exists(where):
            return f"{where}, drawn when training starts"
    if data is None:
        return where
    parts = [where] if where else []  # TensorFlow Datasets and Hugging Face have a folder of their own
    if data.left_out:
        parts.append(f"without {', '.join(data.left_out)}")
    text = ", ".join(parts)
    if data.other_files:
        text += f"; left out: {counted_endings(data.other_files)}"
    return text or None


def _columns(data: Dataset | None) -> str | None:
    """Says which columns of a table are taken for others; None if all have the names that they need."""
    if data is None or not data.columns:
        return None
    return ", ".join(f"{name!r} is taken for {meaning}" for name, meaning in data.columns.items())


def _pixels(data: Dataset | None) -> str | None:
    """Says that images of 16 bits are nearly black because they use the lower bits alone; None if they do not."""
    brightest = brightest_if_dark(_image_paths(data).get("train", ()))
    if brightest is None:
        return None
    return (
        f"16-bit images with values up to {brightest} of 65535, nearly black to the model: multiply the values by "
        f"{65535 // max(1, brightest)}, and save them again"
    )


def _model(settings: Settings, resumes: bool) -> str:
    text, weights = settings.model or _OF_DATASET, settings.initial_weights
    if settings.image_size:
        text += f" for images of {text_of(settings.image_size)}"
    if weights == "none":
        weights = "random weights"
    if weights and not resumes:
        text += f", starting from {weights}"
    return ", ".join([text, *phrases_of(settings, "model")])


def _steps(run: PlannedRun) -> str:
    if run.last_step is None:
        if not run.missing:
            return "until the data ends"
        if run.training.epochs:
            return f"{run.training.epochs} epochs"
        return _OF_DATASET
    if run.data is None:
        return str(run.last_step)
    return f"{run.last_step}: {_epochs(run)} of {_counted(run.steps_per_epoch, 'step')}"


def _nothing_left(run: PlannedRun) -> str:
    if run.last_step is None or run.last_step >= run.progress.step:
        return ""
    return f"; the run is at step {run.progress.step} already, so nothing is left to train"


def _epochs(run: PlannedRun) -> str:
    epochs = run.training.epochs
    if epochs and not run.finds_rate and run.last_step != epochs * run.steps_per_epoch:
        return f"the rest of {_counted(epochs, 'epoch')}"
    whole, more = divmod(run.last_step, run.steps_per_epoch)
    if more:
        return _counted(f"{run.last_step / run.steps_per_epoch:.4g}", "epoch")
    return _counted(whole, "epoch")


def _counted(number: int | str, noun: str) -> str:
    return f"{number} {noun}{'s' * (str(number) != '1')}"


def _batch(settings: Settings, training: Training) -> str:
    replicas, accumulated, a_step = training.num_replicas, training.accumulate_steps, ""
    if replicas > 1:
        a_step += f" on each of {replicas} replicas"
    if accumulated > 1:
        a_step += f", {accumulated} times"
    if settings.batch_size is not None:
        if a_step:
            a_step += f": {settings.batch_size * accumulated * replicas} a step"
        return f"{settings.batch_size} images{a_step}"
    if not settings.input_fn:
        return f"{_OF_DATASET}{a_step}"
    if a_step:
        return f"one of the input_fn's{a_step}"
    return "the input_fn's"


def _devices(training: Training) -> str:
    workers = this_task().num_training_tasks
    if workers > 1:
        if training.gpus:
            return f"{workers} workers, the first {training.gpus} GPUs of each"
        return f"{workers} workers, one device each"
    if training.replicas:
        return f"{_counted(training.replicas, 'replica')} on the CPU: {device_names.processor()}"
    if not (training.gpus or is_gpu_there()):
        return f"the CPU: {device_names.processor()}"
    text = "the first GPU"
    if (training.gpus or 1) > 1:
        text = f"the first {training.gpus} GPUs"
    if name := device_names.gpu():
        text += f": {name}"
    return text


def _optimizer(settings: Settings, training: Training, name: str | None) -> str:
    changes = phrases_of(training, "optimizer") + phrases_of(settings, "optimizer")
    return ", ".join([name or "the model's", *changes])


def _learning_rate(settings: Settings, training: Training, default: Mapping[str, Any]) -> str:
    optimization, replicas, rate = optimization_of(settings, training), training.num_replicas, default["learning_rate"]
    parts = [_rate(settings, optimization, rate)]
    if training.scale_learning_rate:
        parts.append(f"times {replicas} replicas")
        if rate:
            parts[-1] += f": {rate * replicas:g}"
    elif replicas > 1:
        parts.append(f"not scaled by the {replicas} replicas")
    if default["schedule"]:
        parts.append(default["schedule"])
    if optimization.warmup_steps:
        parts.append(f"{optimization.warmup_steps} steps of warm-up")
    return ", ".join(parts)


def _rate(settings: Settings, optimization: Optimization, rate: float | None) -> str:
    if rate is not None:
        return f"{rate:g}"
    if settings.phases:
        return "that of each phase"
    if optimization.optimizer is None:
        return "the model's"
    return "Keras' default"


def _class_weights(training: Training, data: Dataset | None) -> str | None:
    if not training.class_weights:
        return _imbalance(data)
    if data is None:
        return training.class_weights
    weights = datasets.class_weights(data, training.class_weights)
    return listed([f"{name} {weight:.4g}" for name, weight in zip(data.class_names, weights, strict=True)])


def _imbalance(data: Dataset | None) -> str | None:
    """Says that some classes have several times as many training images as others; None if they do not."""
    counts = data and data.task == "classification" and data.class_counts()
    if not counts:
        return None
    by_number = sorted((number, name) for name, number in counts["train"].items() if number)
    (fewest, rarest), (most, commonest) = by_number[0], by_number[-1]
    if most < _UNEVEN * fewest:
        return None
    times = f"{commonest} has {most / fewest:.1f} times the training images of {rarest}"
    return spelled("none, though {0}; {class_weights=balanced} evens them out", times)


def _cache(run: PlannedRun) -> str | None:
    """Says what is kept of the images from epoch to epoch, and its size if it takes memory; None if nothing is."""
    cache = run.training.cache
    if cache is None or run.missing:
        return cache
    text = f"decoded images in {cache}"
    if cache == "features":
        text = "outputs of the frozen layers in memory"
    if size := most_bytes(run.settings, run.training, run.data):
        text += f", at most {size / 1e6:.1f} MB"
    if run.chooses_cache:
        text += spelled("; {cache=none} keeps none")
    return text


def _checkpoints(training: Training) -> str:
    numbers = sorted(filter(None, {training.save_checkpoints_steps, training.evaluate_every}))
    every = ", ".join(f"every {number} steps" for number in numbers if all(number % n or number == n for n in numbers))
    return f"{every or 'every 10 minutes'} and at the end"


def _evaluation(settings: Settings, training: Training, data: Dataset | None) -> str:
    if not training.evaluate_every:
        return "at the end"
    monitor, validates = Monitor.of(training.monitor), data is not None and data.validation_examples
    text = f"every {training.evaluate_every} steps and at the end"
    if this_task().num_training_tasks > 1:
        text = f"by a task of type evaluator, if there is one: {text}"
    if validates:
        text += " on the validation images"
    if training.early_stopping:
        ended = "the phase" if settings.phases else "it"
        text += f"; {training.early_stopping} without a {monitor.better} {monitor.metric} end {ended}"
    if training.keep_best:
        text += f"; the checkpoint of the best {monitor.metric} is kept"
    if data is not None and validates:
        text += f"; then once on the {data.eval_examples} images to evaluate on"
    return text
