"""Chooses what a training keeps in memory of its images between epochs, unless a setting says what to keep."""

import dataclasses
from typing import Any

from estimator_train._engine.host.free_memory import free_memory
from estimator_train.app.datasets.images import ImageFiles
from estimator_train.app.models.backbones import most_features
from estimator_train.app.models.defaults import with_defaults
from estimator_train.app.running.planned_run import PlannedRun
from estimator_train.app.runs.spec import Settings, Training

_SHARE = 0.1  # of the free memory
_BYTES = 4  # of a float32


def with_default_cache(run: PlannedRun) -> PlannedRun:
    """Returns the run with the cache that makes it faster and fits: features of frozen layers, or decoded images.

    Neither changes what is trained. A run that sees its images once, or fewer times, has nothing to gain. Tasks of a
    cluster keep nothing: their machines may have different memory, but all must run the same steps.
    """
    run = dataclasses.replace(run, chooses_cache=True)
    if run.data is None or not isinstance(run.data.train, ImageFiles) or not run.task.is_alone:
        return run
    if (run.last_step or 0) - run.progress.step <= run.steps_per_epoch:
        return run
    for cache in ("features", "memory"):
        training = dataclasses.replace(run.training, cache=cache)
        size = most_bytes(run.settings, training, run.data)
        if size is not None and size <= _SHARE * free_memory():
            return dataclasses.replace(run, training=training)
    return run


def most_bytes(settings: Settings, training: Training, data: Any) -> int | None:
    """Returns at most how many bytes of memory the cache of a training on image files takes.

    None if it takes none, if the training cannot have it, or if the size is unknown before the model is built.
    """
    if settings.image_size is None:
        return None
    height, width = settings.image_size
    if training.cache == "memory":
        images = data.train_examples
        if training.evaluate_every:
            images += data.to_choose_on().eval_examples
        return images * height * width * 3 * _BYTES
    if training.cache != "features" or training.augment or settings.phases:
        return None
    freeze = with_defaults(dataclasses.asdict(settings))["freeze"]
    features = most_features(settings.model, freeze, (height, width))
    return features and data.train_examples * features * _BYTES
