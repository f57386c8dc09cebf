"""Fashion-MNIST (Xiao et al. 2017), downloaded by Keras.

The default settings are from Kashif Rasul, "Multi-GPU training with Estimators, tf.keras and tf.data" (TensorFlow
blog).
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from estimator_train.app.datasets.dataset import About, Dataset
from estimator_train.app.datasets.npz import ArrayDataset

if TYPE_CHECKING:
    import tensorflow as tf

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class FashionMnist(Dataset):
    """Fashion-MNIST. Images are read, or downloaded, when an input_fn is created, because Keras imports TensorFlow."""

    limit: int | None = None
    limit_seed: int = 0
    share: float = 0  # of the training images, for validation
    chooses: bool = False  # whether these are the evaluation images

    @property
    def train_examples(self) -> int:
        return self._limited(60_000) - self._held_out

    @property
    def eval_examples(self) -> int:
        return self._held_out if self.chooses else self._limited(10_000)

    @property
    def validation_examples(self) -> int:
        return 0 if self.chooses else self._held_out

    @property
    def _held_out(self):
        return max(round(self.share * self._limited(60_000)), len(self.class_names)) if self.share else 0

    def _limited(self, number):
        return min(number, self.limit or number)

    def train_input_fn(self, **options: Any) -> Callable[..., tf.data.Dataset]:
        return self._arrays().train_input_fn(**options)

    def eval_input_fn(self, **options: Any) -> Callable[..., tf.data.Dataset]:
        return self._arrays().eval_input_fn(**options)

    def limited(self, limit: int, seed: int = 0) -> FashionMnist:
        if limit < len(self.class_names):
            raise ValueError(f"limit {limit} is less than one example for each of the {len(self.class_names)} classes")
        return dataclasses.replace(self, limit=limit, limit_seed=seed)

    def to_choose_on(self) -> FashionMnist:
        return dataclasses.replace(self, chooses=True) if self.share else self

    def with_validation(self, share: float) -> FashionMnist:
        if self._limited(60_000) < 2 * len(self.class_names):
            raise ValueError(f"{self._limited(60_000)} images are too few to hold out {share:g} of them")
        return dataclasses.replace(self, share=share)

    def _arrays(self):
        (x_train, y_train), (x_eval, y_eval) = _load()
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(Dataset)}
        arrays = ArrayDataset(**fields, x_train=x_train, y_train=y_train, x_eval=x_eval, y_eval=y_eval)
        arrays = arrays if self.limit is None else arrays.limited(self.limit, self.limit_seed)
        arrays = arrays.with_validation(self.share)
        return arrays.to_choose_on() if self.chooses else arrays


def open_dataset(data_dir: str | os.PathLike[str] | None = None) -> FashionMnist:
    """Returns the dataset of 28 x 28 grayscale images.

    Its input_fns raise ConnectionError if the images are missing and cannot be downloaded.

        >>> open_dataset().train_examples
        60000

    Raises:
      ValueError: `data_dir` is given, but Keras decides where the files are.
    """
    _refuse(data_dir)
    return FashionMnist(
        name="fashion_mnist",
        class_names=CLASS_NAMES,
        default_model="fashion_mnist_cnn",
        default_epochs=5,
        default_batch_size=512,
        image_size=(28, 28),
    )


def download(data_dir: str | os.PathLike[str] | None = None) -> Path:
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
        raise ValueError(f"fashion_mnist is kept by Keras in {_home()}; leave out --data-dir")


@functools.cache
def _load():
    import tf_keras as keras

    try:
        return keras.datasets.fashion_mnist.load_data()
    except Exception as error:  # Keras raises a bare Exception if a download fails
        raise ConnectionError(
            f"fashion_mnist could not be downloaded; connect once, or put its four .gz files into {_home()}"
        ) from error
