"""Weights to start from: ImageNet's, a file's or random ones. Checking them takes no TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    import tf_keras as keras

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_file(weights: str | os.PathLike[str] | None) -> TypeGuard[str | os.PathLike[str]]:
    """Returns whether `weights` names a file, rather than ImageNet's weights or none."""
    return weights not in (None, "none", "imagenet")


def check_weights(weights: str | os.PathLike[str] | None) -> None:
    """Raises FileNotFoundError or ValueError if `weights` names a file that is not there or not HDF5."""
    if not is_file(weights):
        return
    path = Path(weights)
    if not path.is_file():
        raise FileNotFoundError(f'there is no weights file {path}; pass an HDF5 file, "imagenet" or "none"')
    with path.open("rb") as file:
        if file.read(len(_HDF5_SIGNATURE)) != _HDF5_SIGNATURE:
            raise ValueError(f"weights file {path} is not HDF5")


def load_file(model: keras.Model, weights: str | os.PathLike[str]) -> None:
    """Loads a weights file into a Keras `model`; raises ValueError if it is of another model."""
    check_weights(weights)
    try:
        model.load_weights(weights)
    except (ValueError, KeyError, OSError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(f"weights file {weights} does not fit {model.name}: {reason}") from error


def application(
    build: Callable[..., keras.Model], image_size: tuple[int, int], weights: str | os.PathLike[str]
) -> keras.Model:
    """Returns the convolutional base that `build`, of `tf_keras.applications`, makes, with `weights` in it."""
    options = {"include_top": False, "input_shape": (*image_size, 3)}
    if weights == "imagenet":
        try:
            return build(weights="imagenet", **options)
        except ValueError:  # of the image size
            raise
        except Exception as error:  # the class that Keras raises where a download fails
            raise ConnectionError(
                f'the ImageNet weights of {build.__name__} could not be downloaded; pass a weights file or "none"'
            ) from error
    base = build(weights=None, **options)
    if is_file(weights):
        load_file(base, weights)
    return base
