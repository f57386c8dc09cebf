"""Any image classification dataset of TensorFlow Datasets, as tfds:NAME."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import os
import sys
from typing import Any

from estimator_train.app.datasets.dataset import About, Dataset, default_settings

ABOUT = About("classification", "any", "TensorFlow Datasets")


class Named:
    """The interface of a module of `datasets`, for tfds:`name`."""

    ABOUT = ABOUT

    def __init__(self, name: str) -> None:
        self.name = name

    def open_dataset(self, data_dir: str | os.PathLike[str] | None = None) -> TfdsDataset:
        """Returns the dataset, downloading it into `data_dir` if necessary; see `open_prepared`."""
        return open_prepared(self.name, data_dir)

    def download(self, data_dir: str | os.PathLike[str] | None = None) -> str:
        """Lets TensorFlow Datasets download and prepare the data, and returns its directory."""
        return prepared(self.name, data_dir).data_dir

    def is_here(self, data_dir: str | os.PathLike[str] | None = None) -> bool:
        """Returns whether the data is in `data_dir`, or where TensorFlow Datasets keeps it."""
        return is_prepared(self.name, data_dir)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfdsDataset(Dataset):
    """Two splits of a builder of TensorFlow Datasets."""

    builder: Any
    train_split: str
    eval_split: str
    validation_split: str | None = None

    @property
    def train_examples(self) -> int:
        return self.builder.info.splits[self.train_split].num_examples

    @property
    def eval_examples(self) -> int:
        return self.builder.info.splits[self.eval_split].num_examples

    @property
    def validation_examples(self) -> int:
        return self.builder.info.splits[self.validation_split].num_examples if self.validation_split else 0

    def to_choose_on(self) -> TfdsDataset:
        if not self.validation_split:
            return self
        return dataclasses.replace(self, eval_split=self.validation_split, validation_split=None)

    def with_validation(self, share: float) -> TfdsDataset:
        """Holds out the last examples, in the order of the files, which is random but not stratified."""
        number = self.train_examples
        kept = number - max(1, round(share * number))
        if not share:
            return dataclasses.replace(self, validation_split=None, validation_name="")
        splits: dict[str, Any] = {"train_split": f"train[:{kept}]", "validation_split": f"train[{kept}:{number}]"}
        return dataclasses.replace(self, **splits, validation_name="")

    def _input_fn(self, side, image_size, **options):
        from estimator_train.app.datasets.pipeline import ExampleBatches, as_model_input

        def load(image, label):
            return as_model_input(image, label, image_size, len(self.class_names))

        examples = functools.partial(self.builder.as_dataset, split=getattr(self, f"{side}_split"), as_supervised=True)
        return ExampleBatches(examples, load, **options)


def open_prepared(name: str, data_dir: str | os.PathLike[str] | None = None) -> TfdsDataset:
    """Returns the dataset `name` of TensorFlow Datasets.

    It trains on the split `train` and evaluates on `test` or `validation`, or on the last fifth of `train` if there is
    neither. If there are both, `validation` is for validation.

    Raises:
      ValueError: TensorFlow Datasets is not installed or has no such dataset, or the dataset's examples are not images
        with one class each.
      ConnectionError: the data could not be downloaded.
    """
    info = _builder(name, data_dir).info
    keys = info.supervised_keys or ()
    features = [info.features[key] for key in keys if isinstance(key, str)]  # a key may be a tuple of keys
    if [type(feature).__name__ for feature in features] != ["Image", "ClassLabel"]:
        raise ValueError(
            f"tfds:{name} does not have an image and a class per example: it has {', '.join(info.features)}"
        )
    image, label = features
    builder = prepared(name, data_dir)
    sides = [split for split in ("test", "validation") if split in builder.info.splits]
    height, width, _ = image.shape
    return TfdsDataset(
        name=f"tfds:{name}",
        class_names=tuple(label.names),
        **default_settings(height, width),
        builder=builder,
        train_split="train" if sides else "train[:80%]",
        eval_split=sides[0] if sides else "train[80%:]",
        validation_split="validation" if len(sides) > 1 else None,
        validation_name="validation" if len(sides) > 1 else "",
    )


def prepared(name: str, data_dir: str | os.PathLike[str] | None = None) -> Any:
    """Returns the builder of `name` after downloading and preparing its data if necessary; see `open_prepared`."""
    builder = _builder(name, data_dir)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # it prints progress to standard output
            builder.download_and_prepare()
    except Exception as error:  # it raises errors of many classes; the user needs the reason
        reason = " ".join(str(error).split())[:200]
        raise ConnectionError(f"tfds:{name} could not be downloaded ({type(error).__name__}: {reason})") from error
    return builder


def is_prepared(name: str, data_dir: str | os.PathLike[str] | None = None) -> bool:
    """Returns whether the data of `name` is in `data_dir`, or where TensorFlow Datasets keeps it."""
    return importlib.util.find_spec("tensorflow_datasets") is not None and _builder(name, data_dir).is_prepared()


def _builder(name, data_dir):
    try:
        import tensorflow_datasets as tfds
        from tensorflow_datasets.core.download import downloader
    except ModuleNotFoundError as error:
        packages = "tensorflow-datasets importlib_resources"  # it forgets to ask for the latter
        raise ValueError(f"{name} needs TensorFlow Datasets: pip install {packages}") from error
    downloader.MAX_RETRIES = 4  # the default of 10 takes more than three minutes offline
    try:
        return tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError as error:
        raise ValueError(f"TensorFlow Datasets has no {name!r}: see https://www.tensorflow.org/datasets") from error
