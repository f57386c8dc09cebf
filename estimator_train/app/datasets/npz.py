"""Images in a NumPy file with the layout of Keras' mnist.npz."""

import dataclasses
import functools
import hashlib
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Hashable
from typing import Any

import numpy as np

from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.datasets.dataset import About, Dataset, sides
from estimator_train.app.datasets.part import InputFn, Part

ABOUT = About("classification", "any", "arrays x_train, y_train, x_test, y_test")

_SIDES = ("train", "test")
_MOST_CLASSES = 100_000  # each has an output of the model
_WHITE = 1.01  # resizing may overshoot 1
_MOST_TIMES = 1100  # by which deflate makes data smaller, at most


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ImageArrays(Part):
    """Images in memory, of shape (n, height, width[, 1 or 3]), and class indices of shape (n,)."""

    PER_EXAMPLE = ("images", "labels")

    images: np.ndarray
    labels: np.ndarray

    def own_names(self) -> list[Hashable]:
        return [hashlib.sha256(image.tobytes()).hexdigest() for image in self.images]

    def input_fn(self, image_size: tuple[int, int], **options: Any) -> InputFn:
        from estimator_train import input_fns
        from estimator_train.app.datasets.pipeline import MappedBatches, as_model_input

        images = self.images
        if images.ndim == 3:
            images = images[..., np.newaxis]
        batches, num_classes = input_fns.arrays(images, self.labels, **options), len(self.class_names)
        to_input = functools.partial(as_model_input, image_size=image_size, num_classes=num_classes)
        return MappedBatches(batches, to_input)


def open_dataset(data_dir: StrPath) -> Dataset:
    """Returns the dataset in an npz file, given as `data_dir`.

    The images `x_train` and `x_test` have shape (n, height, width[, 1 or 3]): integers from 0 to their type's maximum,
    or floats in [0, 1]. `y_train` and `y_test` are class indices of shape (n,). An array `class_names` names the
    classes; without it, their indices do.

        >>> x, y = np.zeros([8, 28, 28], np.uint8), np.arange(8) % 2
        >>> np.savez("tiny.npz", x_train=x, y_train=y, x_test=x, y_test=y)
        >>> open_dataset("tiny.npz").class_names
        ('0', '1')

    Raises FileNotFoundError, or ValueError for a file of something else.
    """
    path = as_path(data_dir)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    arrays = _read(path)
    for side in _SIDES:
        _check(path, f"x_{side}", arrays[f"x_{side}"], f"y_{side}", arrays[f"y_{side}"])
    class_names, parts = _class_names(path, arrays), {}
    for side in _SIDES:
        labels = arrays[f"y_{side}"].astype(np.int64)  # tf.one_hot takes no uint64
        parts[side] = ImageArrays(class_names=class_names, images=arrays[f"x_{side}"], labels=labels)
    defaults = {"default_model": "small_cnn", "image_size": arrays["x_train"].shape[1:3]}
    return Dataset(name="npz", class_names=class_names, **defaults, **sides(parts))


def _class_names(path, arrays):
    number = 1 + max(int(arrays["y_train"].max()), int(arrays["y_test"].max()))
    if number > _MOST_CLASSES:
        raise ValueError(f"{path}: y_train or y_test has class {number - 1}; number the classes from 0")
    if arrays.get("class_names", np.arange(1)).ndim != 1:
        raise ValueError(f"{path}: class_names must have shape (n,), got {arrays['class_names'].shape}")
    class_names = tuple(map(str, arrays.get("class_names", range(number))))
    if len(class_names) < number:
        raise ValueError(
            f"{path}: y_train or y_test has class {number - 1}, but there are {len(class_names)} class_names"
        )
    return class_names


def _read(path):
    names = [f"{array}_{side}" for side in _SIDES for array in "xy"]
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            there = [name for name in (*names, "class_names") if name in file]
            for name in there:
                _check_member(file.zip, name)
            arrays = {name: file[name] for name in there}
    except _UNREADABLE as error:
        raise ValueError(f"{path} is not an npz file of arrays: {error}") from error
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"{path} has no {', '.join(missing)}")
    return arrays


# Pickles, torn files and single arrays; encrypted members, unknown compression, and headers that cannot be parsed.
_UNREADABLE = (
    *(ValueError, TypeError, AttributeError, EOFError, RuntimeError, OverflowError, SyntaxError, OSError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, MemoryError),
)


def _check_member(archive, name):
    """Checks that an array's member has the bytes that its header claims, because NumPy allocates these at once."""
    members = [member for member in archive.infolist() if member.filename in (name, f"{name}.npy")]
    if len(members) != 1:
        raise ValueError(f"it has {len(members)} arrays {name}")
    with archive.open(members[0]) as file:
        read = np.lib.format.read_array_header_2_0
        if np.lib.format.read_magic(file) == (1, 0):
            read = np.lib.format.read_array_header_1_0
        shape, _, dtype = read(file)
    size, packed = members[0].file_size, members[0].compress_size
    if math.prod(shape) * dtype.itemsize > size or size > _MOST_TIMES * (packed + 1):
        raise ValueError(f"{name} claims the shape {shape} of {dtype}, but has {packed} bytes")


def _check(path, x_name, x, y_name, y):
    if x.ndim not in (3, 4) or x.shape[3:] not in ((), (1,), (3,)):
        raise ValueError(f"{path}: {x_name} must be images of shape (n, height, width[, 1 or 3]), got {x.shape}")
    if x.dtype.kind not in "uif" or x.dtype.itemsize > 8 or 0 in x.shape[1:3]:  # TensorFlow has no long doubles
        raise ValueError(f"{path}: {x_name} must be images of integers or floats, got {x.dtype} of shape {x.shape}")
    # Floats from 0 to 255, or integers wider than their values, would become white or black images.
    least, most = (float(x.min()), float(x.max())) if x.size else (0, 0)
    is_wide = x.dtype.kind != "f" and x.dtype.itemsize > 2 and 0 < most < 2**16
    if is_wide or not math.isfinite(least + most) or (x.dtype.kind == "f" and least >= 0 and most > _WHITE):
        raise ValueError(
            f"{path}: {x_name} has {x.dtype} from {least:g} to {most:g}; store integers whose type's largest "
            "value is white, such as uint8, or floats from 0 to 1"
        )
    if y.ndim != 1 or y.dtype.kind not in "iu" or (y.size and y.min() < 0):
        raise ValueError(f"{path}: {y_name} must be class indices of shape (n,), got {y.dtype} of shape {y.shape}")
    if len(x) != len(y) or not len(x):
        raise ValueError(f"{path}: {x_name} and {y_name} must have the same length above 0, got {len(x)} and {len(y)}")
