"""A sample of a training batch as the model sees it: resized and augmented, with its labels."""

from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image

import estimator_train as et
from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.metrics import tasks
from estimator_train.app.running import build
from estimator_train.app.runs.spec import Settings

_WHOLE = 0.995  # a share of a class that two decimals show as 1


def sample(settings: Settings, data: Dataset | None, augment: str | None, number: int) -> list[tuple[Image.Image, str]]:
    """Returns training images with their labels; the list is empty if the data are no images or have gone since."""
    if data is None:
        return []
    input_fn = build.build_sample_input_fn(settings, data, number)
    if augment:
        input_fn = et.input_fns.augmented(input_fn, augment)
    try:
        images, labels = next(iterate(input_fn()))[:2]
    except tf.errors.OpError:  # a report is worth having without them
        return []
    if not (tf.is_tensor(images) and images.shape.rank == 4 and images.shape[-1] in (1, 3)):
        return []
    pixels = (255 * np.clip(images, 0, 1)).round().astype("uint8")
    pixels = np.repeat(pixels, 3 // pixels.shape[-1], axis=-1)
    return [
        (Image.fromarray(each), _text_of(settings, label))
        for each, label in zip(pixels, np.asarray(labels), strict=True)
    ]


def _text_of(settings: Settings, label: Any) -> str:
    """Returns a label in readable form, with the shares that mixup and cutmix give each class: "CNV 0.75, DME 0.25"."""
    if settings.task == "regression":
        return tasks.short(float(label[0]))
    parts = []
    for name, share in zip(settings.class_names, label, strict=True):
        if share > _WHOLE:
            parts.append(name)
        elif share > 1 - _WHOLE:
            parts.append(f"{name} {share:.2f}")
    return ", ".join(parts) or "none"
