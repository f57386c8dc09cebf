"""Describes in a few lines what training is going to do."""

from __future__ import annotations

import dataclasses
import os

from estimator_train._engine.host.cluster_task import this_task
from estimator_train._engine.host.paths import is_remote
from estimator_train.app import datasets
from estimator_train.app.cli.settings import optimization_of
from estimator_train.app.cli.table import lines_of, phrases_of
from estimator_train.app.cli.training_run import Run
from estimator_train.app.datasets.bit_depth import brightest_if_dark
from estimator_train.app.datasets.images import counted_endings
from estimator_train.app.models.backbones import CLASSES
from estimator_train.app.models.defaults import with_defaults
from estimator_train.app.models.optimization import TESTED_RATES
from estimator_train.app.runs.monitor import Monitor
from estimator_train.app.runs.run_file import newest_checkpoint

_OF_DATASET = "the dataset's default"
_UNEVEN = 4  # the ratio of two classes above which the plan mentions class weights


def plan(run: Run) -> list[str]:
    """Returns the lines of the plan: those that several settings make together, then one for each other setting."""
    settings, training, data = run.settings, run.training, run.data
    default = with_defaults(dataclasses.asdict(settings) | dataclasses.asdict(training))
    checkpoint = None if run.finds_rate else newest_checkpoint(run.model_dir)
    together = {
        "data": _data(settings, data, run.missing),
        _kind(data): _classes(data),
        "validation": _validation(settings, training, data),
        "files": _files(settings, data),
        "pixels": _pixels(data),
        "model": _model(dataclasses.replace(settings, freeze=default["freeze"]), resumes=checkpoint is not None),
        "steps": _steps(run),
        "batch": _batch(settings, training, data),
        "devices": _devices(training),
        "optimizer": _optimizer(settings, training, default["optimizer"]),
        "rate": _learning_rate(settings, training, default),
        "class weight": _class_weights(training, data),
        "checkpoints": _checkpoints(training),
        "evaluation": _evaluation(training, data),
    }
    if run.finds_rate:
        together |= dict.fromkeys(("validation", "checkpoints", "evaluation"))
        together["rate"] = "rises from {:g} to {:g}, or until the loss diverges".format(*TESTED_RATES)
    facts = together | lines_of(settings) | lines_of(training) | together  # in this order
    facts["folder"] = f"{run.model_dir}, continuing from {checkpoint}" if checkpoint else run.model_dir
    if run.finds_rate:
        facts["folder"] += ", for the plot learning_rate.png; nothing else is kept"
    for name, source in run.sources.items():
        facts[name] = f"{facts[name]}, from {source}"
    return [f"{name:<12} {text}" for name, text in facts.items() if text is not None]


def _data(settings, data, missing):
    if missing:
        return f"{settings.dataset}: {missing}"
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
    """Lists the first ten classes with their numbers of training, validation and evaluation images, if known."""
    if data is None or not data.class_names:
        return None
    counts = data.class_counts()
    shown = list(data.class_names[:10])
    if counts:
        sides = [counts[side] for side in ("train", "validation", "eval") if side in counts]
        shown = [f"{name} {' + '.join(str(side[name]) for side in sides)}" for name in shown]
    return ", ".join([*shown, "…"] if len(data.class_names) > 10 else shown)


def _validation(settings, training, data):
    """Says which images choose a checkpoint; None if there are none but the evaluation images, or no choice."""
    if data is None or not data.validation_examples:
        chooses = data and (training.early_stopping or training.keep_best)
        return "the evaluation images choose, so the final numbers are too good" if chooses else None
    share = f"a share of {settings.validation:g} of the training images" if settings.validation else None
    if share and settings.split:
        share += ", by patient"
    use = "for the evaluations during training" if training.evaluate_every else "not used without --evaluate-every"
    return f"{data.validation_examples} images, {share or data.validation_name}, {use}"


def judging(run: Run) -> str | None:
    """Says in a sentence which images chose the checkpoint and which judge it; None if nothing is chosen."""
    training, data = run.training, run.data
    if data is None or not (training.early_stopping or training.keep_best):
        return None
    if not data.validation_examples:
        return (
            f"The {data.eval_examples} evaluation images chose the checkpoint and judged it: its numbers are too good."
        )
    chose = f"{data.validation_examples} validation images"
    return f"{chose} chose the checkpoint; {data.eval_examples} others, which did not, judged it."


def _files(settings, data):
    paths = [path for side in ((data and data.image_paths()) or {}).values() for path in side]
    left_out = data.left_out if data else ()
    local = paths and not any(map(is_remote, paths))
    where = os.path.commonpath(paths) if local else settings.data_dir
    if local and not os.path.exists(where):
        return f"{where}, drawn when training starts"
    others = counted_endings(data.other_files if data else {})
    without = [f", without {', '.join(left_out)}"] * bool(left_out) + [f"; left out: {others}"] * bool(others)
    return "".join([where, *without]) if without else where


def _pixels(data):
    """Says that images of 16 bits are nearly black because they use the lower bits alone; None if they do not."""
    brightest = brightest_if_dark(((data and data.image_paths()) or {}).get("train", ()))
    if brightest is None:
        return None
    return (
        f"16-bit images with values up to {brightest} of 65535, nearly black to the model: multiply the values by "
        f"{65535 // max(1, brightest)}, and save them again"
    )


def _model(settings, resumes):
    size = f" for images of {'x'.join(map(str, settings.image_size))}" if settings.image_size else ""
    start = settings.weights or ("imagenet" if settings.model in CLASSES else None)
    weights = f", starting from {'random weights' if start == 'none' else start}" if start and not resumes else ""
    model = settings.model or _OF_DATASET
    return ", ".join([f"{model}{size}{weights}", *phrases_of(settings, "model")])


def _steps(run):
    if run.last_step is None and run.missing:
        return f"{run.training.epochs} epochs" if run.training.epochs else _OF_DATASET
    if run.last_step is None:
        return "until the data ends"
    if run.data is None:
        return run.last_step
    of_all = (run.training.epochs or 0) * run.steps_per_epoch
    if of_all and not run.finds_rate and run.last_step != of_all:
        return f"{run.last_step}: the rest of {run.training.epochs} epochs of {run.steps_per_epoch}"
    epochs = f"{run.last_step / run.steps_per_epoch:.4g}"
    return f"{run.last_step}: {epochs} epoch{'s' * (epochs != '1')} of {run.steps_per_epoch}"


def _batch(settings, training, data):
    replicas = training.num_replicas
    on_each = f" on each of {replicas} replicas" if replicas > 1 else ""
    times = f", {training.accumulate_steps} times" if training.accumulate_steps > 1 else ""
    if settings.batch_size is None:
        of_input_fn = "one of the input_fn's" if on_each or times else "the input_fn's"
        return f"{of_input_fn if settings.input_fn else _OF_DATASET}{on_each}{times}"
    batches = training.accumulate_steps * replicas
    a_step = f": {settings.batch_size * batches} a step" if batches > 1 else ""
    return f"{settings.batch_size} images{on_each}{times}{a_step}"


def _devices(training):
    if this_task().num_training_tasks > 1:
        each = f"the first {training.gpus} GPUs of each" if training.gpus else "one device each"
        return f"{this_task().num_training_tasks} workers, {each}"
    if training.replicas:
        return f"{training.replicas} replica{'s' * (training.replicas > 1)} on the CPU"
    if training.gpus:
        return f"the first {training.gpus} GPUs" if training.gpus > 1 else "the first GPU"
    return "the first GPU, or the CPU if there is none"


def _optimizer(settings, training, name):
    """Names the optimizer, and lists its settings that flags change, except the learning rate."""
    changes = phrases_of(training, "optimizer") + phrases_of(settings, "optimizer")
    return ", ".join([name or "the model's", *changes])


def _learning_rate(settings, training, default):
    """Describes the rate and its schedule, and with several replicas whether the rate is scaled by them."""
    optimization, replicas = optimization_of(settings, training), training.num_replicas
    rate, schedule = default["learning_rate"], default["schedule"]
    unknown = "the model's" if optimization.optimizer is None else "Keras' default"
    if settings.phases:
        unknown = "that of each phase"
    text = unknown if rate is None else f"{rate:g}"
    if training.scale_learning_rate:
        text += f", times {replicas} replicas" + (f": {rate * replicas:g}" if rate else "")
    elif replicas > 1:
        text += f", not scaled by the {replicas} replicas"
    text += f", {schedule}" if schedule else ""
    return text + (f", {optimization.warmup_steps} steps of warm-up" if optimization.warmup_steps else "")


def _class_weights(training, data):
    if not training.class_weights:
        return _imbalance(data)
    if data is None:
        return training.class_weights
    weights = datasets.class_weights(data, training.class_weights)
    shown = [f"{name} {weight:.4g}" for name, weight in zip(data.class_names[:10], weights, strict=False)]
    return ", ".join([*shown, "…"] if len(weights) > 10 else shown)


def _imbalance(data):
    """Says that some classes have several times as many training images as others; None if they do not."""
    counts = data and data.task == "classification" and data.class_counts()
    if not counts:
        return None
    by_number = sorted((number, name) for name, number in counts["train"].items() if number)
    (fewest, rarest), (most, commonest) = by_number[0], by_number[-1]
    if most < _UNEVEN * fewest:
        return None
    times = f"{commonest} has {most / fewest:.1f} times the training images of {rarest}"
    return f"none, though {times}; --class-weights balanced evens them out"


def _checkpoints(training):
    numbers = sorted({training.save_checkpoints_steps, training.evaluate_every} - {None})
    every = ", ".join(f"every {number} steps" for number in numbers if all(number % n or number == n for n in numbers))
    return f"{every or 'every 10 minutes'} and at the end"


def _evaluation(training, data):
    if not training.evaluate_every:
        return "at the end"
    monitor = Monitor.of(training.monitor)
    without = f"without a {monitor.better} {monitor.metric}"
    stop = f"; {training.early_stopping} {without} end it" if training.early_stopping else ""
    best = f"; the checkpoint of the best {monitor.metric} is kept" if training.keep_best else ""
    by = "by a task of type evaluator, if there is one: " if this_task().num_training_tasks > 1 else ""
    if data is not None and data.validation_examples:
        once = f"; then once on the {data.eval_examples} images to evaluate on"
        return f"{by}every {training.evaluate_every} steps and at the end on the validation images{stop}{best}{once}"
    return f"{by}every {training.evaluate_every} steps and at the end{stop}{best}"
