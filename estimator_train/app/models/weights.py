"""Initial weights: ImageNet's, a file's or random ones. They are checked without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from estimator_train._engine.host.paths import StrPath
from estimator_train.app.errors import SpelledError

if TYPE_CHECKING:
    import tf_keras as keras

_IMAGENET_DEVIATIONS = (0.229, 0.224, 0.225)  # standard deviations of red, green and blue in [0, 1]

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_file(weights: StrPath | None) -> TypeGuard[StrPath]:
    """Returns whether `weights` is a file, not "imagenet", "none" or None.

    >>> is_file("vgg16.h5"), is_file("imagenet")
    (True, False)
    """
    return weights not in (None, "none", "imagenet")


def check_weights(weights: StrPath | None) -> None:
    """Raises FileNotFoundError or ValueError if `weights` is a file that does not exist or is not HDF5.

    >>> check_weights("imagenet")
    """
    if not is_file(weights):
        return
    path = Path(weights)
    if not path.is_file():
        raise FileNotFoundError(f'there is no weights file {path}; pass an HDF5 file, "imagenet" or "none"')
    with path.open("rb") as file:
        if file.read(len(_HDF5_SIGNATURE)) != _HDF5_SIGNATURE:
            raise ValueError(f"weights file {path} is not HDF5")


def load_file(model: keras.Model, weights: StrPath) -> None:
    """Loads a weights file into a Keras `model`; raises ValueError if it does not fit.

    >>> model = models.build_model("small_cnn", image_size=(32, 32), num_classes=2)
    >>> model.save_weights("weights.h5")
    >>> load_file(model, "weights.h5")
    """
    check_weights(weights)
    try:
        _check_contents(weights)
        model.load_weights(weights)
    except (ValueError, KeyError, OSError, TypeError, AttributeError, RuntimeError, MemoryError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(f"weights file {weights} does not fit {model.name}: {reason}") from error


def _check_contents(weights):
    """Raises ValueError for values in other files, which could be anybody's, and for datasets that claim too many.

    h5py allocates at once what a dataset claims to hold.
    """
    import h5py

    def check(name, node):
        if isinstance(node, h5py.Group):
            elsewhere = any(isinstance(node.get(each, getlink=True), h5py.ExternalLink) for each in node)
        else:
            elsewhere = node.external or node.is_virtual
        if elsewhere:
            raise ValueError(f"{name} leads to another file")
        if isinstance(node, h5py.Dataset) and node.nbytes > 1100 * (node.id.get_storage_size() + 1000):
            raise ValueError(f"{name} claims the shape {node.shape}, but has {node.id.get_storage_size()} bytes")

    with h5py.File(weights) as file:
        check("/", file)
        file.visititems(check)


class NoDownloadError(SpelledError, ConnectionError):
    """Weights could not be downloaded."""


def application(build: Callable[..., keras.Model], image_size: tuple[int, int], weights: StrPath) -> keras.Model:
    """Returns the convolutional base built by `build`, a function of `tf_keras.applications`, with `weights` loaded."""
    base = _built(build, image_size, "imagenet" if weights == "imagenet" else None)
    if is_file(weights):
        load_file(base, weights)
    if _normalization(base) is None:
        return base
    if weights == "imagenet":
        pretrained, base = base, _built(build, image_size, None)
        base.set_weights(pretrained.get_weights())
    _square_deviations(_normalization(base))
    return base


def _built(build, image_size, weights):
    try:
        return build(include_top=False, input_shape=(*image_size, 3), weights=weights)
    except ValueError as error:
        raise ValueError(f"{build.__name__} cannot be built: {str(error).splitlines()[0]}") from error
    except Exception as error:  # Keras raises a bare Exception if a download fails
        if weights is None:
            raise
        cause = str(error).splitlines()[0]
        text = (
            "the ImageNet weights of {0} could not be downloaded; pass a file as weights ({weights=FILE}), or "
            '"none": {1}'
        )
        raise NoDownloadError(text, build.__name__, cause) from error


def _normalization(base):
    """Returns EfficientNet's layer that has statistics as weights; None for other models."""
    return next((layer for layer in base.layers if type(layer).__name__ == "Normalization" and layer.weights), None)


def _square_deviations(normalization):
    """Corrects the layer's variances, for which ImageNet's weights hold standard deviations.

    Keras corrects this with an op that it adds only for `weights="imagenet"` (TensorFlow's issue 49930), so a model
    whose weights come from a file or a checkpoint would lack it.
    """
    mean, variance, count = normalization.get_weights()
    if (abs(variance - _IMAGENET_DEVIATIONS) < 1e-4).all():
        normalization.set_weights([mean, variance**2, count])
        normalization.finalize_state()
