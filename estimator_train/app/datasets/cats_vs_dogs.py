"""Cats and dogs (Elson et al. 2007), from a local directory or TensorFlow Datasets."""

import dataclasses

from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.datasets import tfds
from estimator_train.app.datasets.dataset import PHOTOGRAPHS, About, Dataset
from estimator_train.app.datasets.images import open_directory

ABOUT = About("cats and dogs", "23,262, 0.8 GB", "TensorFlow Datasets, or a folder")

_PUBLISHED = tfds.Named("cats_vs_dogs")
download = _PUBLISHED.download


def open_dataset(data_dir: StrPath | None = None) -> Dataset:
    """Returns the dataset from TensorFlow Datasets, or from the class directories in `data_dir`.

    A `data_dir` with a file dataset_info.json is treated as a download of TensorFlow Datasets. The errors are those of
    `images.open_directory` and `tfds.Named.open_dataset`.
    """
    if data_dir is None or _is_prepared(data_dir):
        data = _PUBLISHED.open_dataset(data_dir)
        return dataclasses.replace(data, name="cats_vs_dogs", default_epochs=2, image_size=PHOTOGRAPHS["image_size"])
    return open_directory(data_dir, name="cats_vs_dogs", **PHOTOGRAPHS)


def _is_prepared(directory):
    return any((version / "dataset_info.json").exists() for version in as_path(directory, "cats_vs_dogs").glob("*"))


def is_here() -> bool:
    """Returns whether the data is where TensorFlow Datasets keeps it."""
    return _PUBLISHED.is_here()
