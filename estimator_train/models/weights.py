"""Weights to start from: ImageNet's, a file's or random ones. Checking them takes no TensorFlow."""

from pathlib import Path

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_file(weights):
    """Returns whether `weights` names a file, rather than ImageNet's weights or none."""
    return weights not in (None, "none", "imagenet")


def check_weights(weights):
    """Raises FileNotFoundError or ValueError if `weights` names a file that is not there or not HDF5."""
    if not is_file(weights):
        return
    path = Path(weights)
    if not path.is_file():
        raise FileNotFoundError(f'there is no weights file {path}; pass an HDF5 file, "imagenet" or "none"')
    with path.open("rb") as file:
        if file.read(len(_HDF5_SIGNATURE)) != _HDF5_SIGNATURE:
            raise ValueError(f"weights file {path} is not HDF5")


def load_file(model, weights):
    """Loads a weights file into `model`; raises ValueError if it is of another model."""
    check_weights(weights)
    try:
        model.load_weights(weights)
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"weights file {weights} does not fit {model.name}: {error}".split("\n")[0]) from error


def application(build, image_size, weights):
    """Returns the convolutional base that `build`, of `tf_keras.applications`, makes, with `weights` in it."""
    shape = (*image_size, 3)
    base = build(include_top=False, weights=None, input_shape=shape)
    if is_file(weights):
        load_file(base, weights)
    elif weights == "imagenet":
        try:
            base = build(include_top=False, weights="imagenet", input_shape=shape)
        except Exception as error:  # the class that Keras raises when a download fails
            raise ConnectionError(
                f'the ImageNet weights of {base.name} could not be downloaded; pass a weights file or "none"'
            ) from error
    return base
