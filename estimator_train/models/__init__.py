"""Compiled Keras models by name, from float32 RGB images in [0, 1] to probabilities or numbers."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from estimator_train.models.weights import check_weights, is_file

if TYPE_CHECKING:
    import tf_keras as keras

__all__ = ["FORMER_NAMES", "NAMES", "TASKS", "build_model", "check_weights", "is_file"]

TASKS = ("classification", "multilabel", "regression")
NAMES = ("vgg16", "mobilenet_v2", "small_cnn", "fashion_mnist_cnn")
FORMER_NAMES = {"convnet": "fashion_mnist_cnn"}


def build_model(
    name: str,
    *,
    image_size: tuple[int, int],
    num_classes: int,
    weights: str | os.PathLike[str] | None = None,
    task: str = "classification",
    label_moments: tuple[float, float] | None = None,
) -> keras.Model:
    """Returns a compiled `tf_keras` model from (batch, height, width, 3) to (batch, num_classes), both float32.

    It takes pixels in [0, 1], whatever its `weights` were trained on, and labels as `datasets.Dataset` has.

    Args:
      name: one of `NAMES`, or of the `FORMER_NAMES`.
      image_size: (height, width) in pixels.
      num_classes: how many classes or labels there are; 1 for a regression.
      weights: "imagenet", "none" for random ones, or an HDF5 file; None is the `DEFAULT_WEIGHTS` of the model.
      task: "classification", which has a softmax; "multilabel", a sigmoid for each label; "regression", a number. The
        loss and the metrics follow: see `head.Head`.
      label_moments: mean and standard deviation of the labels of a regression, so that the model starts from these.

    Raises:
      ValueError: there is no such model or task, or the weights do not fit it.
      FileNotFoundError: the weights file is not there.
      ConnectionError: the ImageNet weights could not be downloaded.
    """
    name = FORMER_NAMES.get(name, name)
    if name not in NAMES:
        raise ValueError(f"there is no model {name!r}; pass one of {', '.join(NAMES)}")
    check_weights(weights)
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}; pass one of {', '.join(TASKS)}")
    from estimator_train.models.head import Head  # TensorFlow comes with it

    model = importlib.import_module(f"{__name__}.{name}")
    head = Head(num_classes, task, label_moments)
    return model.build(image_size, head, model.DEFAULT_WEIGHTS if weights is None else weights)
