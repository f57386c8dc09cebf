"""Compiled Keras models by name: float32 RGB images in [0, 1] in, class probabilities out."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from estimator_train.models.optimization import Optimization
from estimator_train.models.weights import check_weights, is_file

if TYPE_CHECKING:
    import tf_keras as keras

__all__ = ["FORMER_NAMES", "NAMES", "Optimization", "build_model", "check_weights", "is_file"]

NAMES = ("vgg16", "mobilenet_v2", "small_cnn", "fashion_mnist_cnn")
FORMER_NAMES = {"convnet": "fashion_mnist_cnn"}


def build_model(
    name: str,
    *,
    image_size: tuple[int, int],
    num_classes: int,
    weights: str | os.PathLike[str] | None = None,
    dropout: float | None = None,
) -> keras.Model:
    """Returns a compiled `tf_keras` model from (batch, height, width, 3) to (batch, num_classes), both float32.

    It takes pixels in [0, 1] and one-hot labels, whatever its `weights` were trained on.

    Args:
      name: one of `NAMES`, or of the `FORMER_NAMES`.
      image_size: (height, width) in pixels.
      num_classes: of the softmax.
      weights: "imagenet", "none" for random ones, or an HDF5 file; None is the `DEFAULT_WEIGHTS` of the model.
      dropout: share of the features that is dropped before the last layer in training; None: as the model has it.

    Raises:
      ValueError: there is no such model, or the weights do not fit it.
      FileNotFoundError: the weights file is not there.
      ConnectionError: the ImageNet weights could not be downloaded.
    """
    name = FORMER_NAMES.get(name, name)
    if name not in NAMES:
        raise ValueError(f"there is no model {name!r}; pass one of {', '.join(NAMES)}")
    check_weights(weights)
    module = importlib.import_module(f"{__name__}.{name}")
    model = module.build(image_size, num_classes, module.DEFAULT_WEIGHTS if weights is None else weights)
    if dropout is None:
        return model
    from estimator_train.models.dropout import with_dropout  # TensorFlow has come with the model

    return with_dropout(model, dropout)
