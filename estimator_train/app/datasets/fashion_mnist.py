"""Fashion-MNIST (Xiao et al. 2017), downloaded by Keras, with the settings of the post named in `fashion_mnist_cnn`."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from estimator_train._engine.host.paths import StrPath
from estimator_train.app.datasets.dataset import About, Dataset
from estimator_train.app.datasets.held_out import VALIDATION, holds_out_by_rank
from estimator_train.app.datasets.npz import ImageArrays
from estimator_train.app.datasets.part import InputFn, Part
from estimator_train.app.errors import SettingError

ABOUT = About("clothes, 10 classes", "70,000, 31 MB", "Keras")
CLASS_NAMES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip

_FILES = (
    "train-labels-idx1-ubyte.gz",
    "train-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LoadedImages(Part):
    """Images that are read, or downloaded, when an input_fn is created, because Keras imports TensorFlow."""

    load: Callable[[], Part]
    limit: tuple[int, int] | None = None  # of the images loaded, and its seed

    @property
    def count(self) -> int:
        if self.limit is None:
            return super().count
        return min(super().count, self.limit[0])

    def input_fn(self, image_size: tuple[int, int], **options: Any) -> InputFn:
        images = self.load()
        if self.limit:
            images = images.limited(*self.limit)
        return images.input_fn(image_size, **options)

    def limited(self, limit: int, seed: int) -> Part:
        if limit < len(CLASS_NAMES):
            raise ValueError(f"limit {limit} is less than one example for each of the {len(CLASS_NAMES)} classes")
        return dataclasses.replace(self, limit=(min(limit, self.count), seed))

    def split(self, share: float, purpose: str = VALIDATION) -> tuple[Part, Part]:
        """Holds out the same images whatever the limit: their ranks do not change, as there are always all of them."""
        if self.limit and holds_out_by_rank():  # they were limited first
            limit = self.limit
            return LoadedImages(number=self.count, load=lambda: self.load().limited(*limit)).split(share)
        whole = super().count
        if whole < 2 * len(CLASS_NAMES):
            raise ValueError(f"{whole} images are too few to hold out {share:g} of them")
        held_out = max(round(share * whole), len(CLASS_NAMES))
        return (
            dataclasses.replace(self, number=whole - held_out, load=lambda: self.load().split_by_rank(share)[0]),
            dataclasses.replace(self, number=held_out, load=lambda: self.load().split_by_rank(share)[1]),
        )


def open_dataset(data_dir: StrPath | None = None) -> Dataset:
    """Returns the dataset of 28 x 28 grayscale images; raises ValueError for a `data_dir`, which Keras chooses.

        >>> open_dataset().train_examples
        60000

    Its input_fns raise ConnectionError if the images are missing and cannot be downloaded.
    """
    _refuse(data_dir)
    return Dataset(
        name="fashion_mnist",
        class_names=CLASS_NAMES,
        default_model="fashion_mnist_cnn",
        default_epochs=5,
        default_batch_size=512,
        image_size=(28, 28),
        train=LoadedImages(number=60_000, load=lambda: _images(0)),
        eval=LoadedImages(number=10_000, load=lambda: _images(1)),
    )


def download(data_dir: StrPath | None = None) -> Path:
    """Lets Keras download the files and returns their directory; raises ConnectionError if that fails."""
    _refuse(data_dir)
    _load()
    return _home()


def is_here() -> bool:
    """Returns whether all files are where Keras keeps them."""
    return all((_home() / name).is_file() for name in _FILES)


def _home():
    return Path.home() / ".keras" / "datasets" / "fashion-mnist"


def _refuse(data_dir):
    if data_dir is not None:
        raise SettingError("fashion_mnist is kept by Keras in {0}; leave out {data_dir}", _home())


def _images(side):
    images, labels = _load()[side]
    return ImageArrays(class_names=CLASS_NAMES, images=images, labels=labels)


@functools.cache
def _load():
    import tf_keras as keras

    try:
        return keras.datasets.fashion_mnist.load_data()
    except Exception as error:  # Keras raises a bare Exception if a download fails
        raise ConnectionError(
            f"fashion_mnist could not be downloaded; connect once, or put its four .gz files into {_home()}"
        ) from error
