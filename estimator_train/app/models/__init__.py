"""Compiled Keras models by name, from float32 RGB images in [0, 1] to probabilities or numbers."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING

from estimator_train._engine.host.paths import StrPath
from estimator_train.app.models.backbones import CLASSES, check_freeze
from estimator_train.app.models.defaults import least_size
from estimator_train.app.models.optimization import Optimization
from estimator_train.app.models.phases import Phase, parse_phases
from estimator_train.app.models.weights import check_weights, is_file, load_file

if TYPE_CHECKING:
    import tf_keras as keras

__all__ = [
    "NAMES",
    "TASKS",
    "Optimization",
    "Phase",
    "build_model",
    "check_name",
    "check_options",
    "check_weights",
    "is_file",
    "parse_phases",
]

TASKS = ("classification", "multilabel", "regression")
_SMALL = ("small_cnn", "fashion_mnist_cnn")
NAMES = (*_SMALL, *CLASSES)


def check_name(name: str) -> None:
    """Raises ValueError if `name` is not one of `NAMES`.

    >>> models.check_name("mobilenet_v2")
    """
    if name in NAMES:
        return
    advice = f"pass {', '.join(_SMALL)} or a classifier of keras.applications, such as mobilenet_v2 or resnet50_v2"
    if similar := ", ".join(difflib.get_close_matches(name.lower(), NAMES, n=5)):
        advice = f"did you mean {similar}?"
    raise ValueError(f"there is no model {name!r}; {advice}")


def check_options(
    name: str,
    *,
    image_size: tuple[int, int] | None = None,
    weights: StrPath | None = None,
    freeze: str | int | None = None,
) -> None:
    """Raises ValueError if a model cannot have these arguments of `build_model`, as far as TensorFlow is not needed.

    >>> models.check_options("xception", image_size=(96, 96), weights="imagenet", freeze="all")
    """
    check_freeze(name, weights, freeze)
    least = least_size(name)
    if image_size is not None and min(image_size) < least:
        raise ValueError(
            f"{name} takes images of at least {least} x {least} pixels, got image_size {tuple(image_size)}"
        )
    if name in _SMALL and weights == "imagenet":
        raise ValueError(f'{name} has no ImageNet weights; pass a weights file or "none"')


def build_model(
    name: str,
    *,
    image_size: tuple[int, int],
    num_classes: int,
    weights: StrPath | None = None,
    freeze: str | int | None = None,
    dropout: float | None = None,
    task: str = "classification",
    label_moments: tuple[float, float] | None = None,
    load_weights: bool = True,
) -> keras.Model:
    """Returns a compiled `tf_keras` model from (batch, height, width, 3) to (batch, num_classes), both float32.

    It takes pixels in [0, 1], whatever its `weights` were trained on, and labels in the format of `datasets.Dataset`:

        model = build_model("efficientnet_b0", image_size=(224, 224), num_classes=2, freeze="block5c_add")

    Args:
      name: one of `NAMES`; those such as "resnet50_v2" follow `tf_keras.applications`.
      image_size: (height, width) in pixels.
      num_classes: how many classes or labels there are; 1 for a regression.
      weights: "imagenet", "none" for random weights, or an HDF5 file; None means ImageNet's, if the model has any. A
        file holds the weights of the backbone without its top, or all weights of a model without a backbone.
      freeze: backbone layers that keep their weights: "all", "none", the number of first layers, or the name of the
        last one. None freezes nothing if the weights are random, in vgg16 all but the last block, and otherwise all.
      dropout: dropout rate before the last layer; None uses the model's own.
      task: "classification" for a softmax, "multilabel" for a sigmoid per label, "regression" for a number. It also
        determines the loss and the metrics, see `head.Head`.
      label_moments: mean and standard deviation of a regression's labels, from which the model starts.
      load_weights: False skips reading `weights`, if a checkpoint will replace them anyway.

    Raises:
      ValueError: there is no such model, task or layer, the model does not take images of that size, the weights do not
        fit, or random weights would be frozen.
      FileNotFoundError: the weights file does not exist.
      ConnectionError: the ImageNet weights could not be downloaded.
    """
    check_name(name)
    if load_weights:
        check_weights(weights)
    check_options(name, image_size=image_size, weights=weights, freeze=freeze)
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}; pass one of {', '.join(TASKS)}")
    from estimator_train.app.models.head import Head  # imports TensorFlow

    head = Head(num_classes, task, label_moments, dropout)
    if name in CLASSES:
        classifier = importlib.import_module(f"{__name__}.classifier")
        return classifier.build(name, image_size, head, weights, freeze, load_weights=load_weights)
    model = importlib.import_module(f"{__name__}.{name}").build(image_size, head)
    if load_weights and weights is not None and is_file(weights):
        load_file(model, weights)
    return model
