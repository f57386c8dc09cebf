"""Image classification datasets from Hugging Face: hf:NAME from the hub, or a local directory."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.util
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from estimator_train._engine.host.files import quoted
from estimator_train._engine.host.paths import StrPath, local
from estimator_train.app.datasets.dataset import About, Dataset, default_settings, sides
from estimator_train.app.datasets.held_out import EVALUATION, holds_out_by_rank
from estimator_train.app.datasets.part import InputFn, Part

ABOUT = About("classification", "any", "a folder that Hugging Face datasets saved or can load")

_HELD_OUT = ("test", "validation", "valid", "val")


class Named:
    """The interface of a module of `datasets`, for hf:`name`, or hf:`name`:CONFIG if the dataset has configurations."""

    ABOUT = About("classification", "any", "the Hugging Face hub")

    def __init__(self, name: str) -> None:
        self.name, _, self._config = name.partition(":")

    def open_dataset(self, data_dir: StrPath | None = None) -> Dataset:
        """Returns the dataset, downloading it into `data_dir` if necessary; raises ConnectionError if that fails."""
        return open_splits(f"hf:{self.name}", self._loaded(data_dir))

    def download(self, data_dir: StrPath | None = None) -> str:
        """Downloads the data with the package `datasets`, and returns the directory of its cache."""
        self._loaded(data_dir)
        return os.fspath(data_dir or _package(self.name).config.HF_DATASETS_CACHE)

    def is_here(self, data_dir: StrPath | None = None) -> bool:
        """Returns whether the data is in `data_dir`, or where the package `datasets` keeps it."""
        if importlib.util.find_spec("datasets") is None:
            return False
        cache = data_dir or _package(self.name).config.HF_DATASETS_CACHE
        return os.path.isdir(os.path.join(cache, self.name.replace("/", "___")))

    def _loaded(self, data_dir):
        package = _package(f"hf:{self.name}")
        try:
            return package.load_dataset(self.name, self._config or None, cache_dir=data_dir)
        except Exception as error:  # it raises errors of many classes; the user needs the reason
            reason = " ".join(str(error).split())[:300]
            raise ConnectionError(f"hf:{self.name} could not be loaded ({type(error).__name__}: {reason})") from error


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HfSplit(Part):
    """A split of the package `datasets`, whose column `image` has encoded images."""

    rows: Any
    image: str
    labels: np.ndarray

    def take(self, rows: Sequence[int]) -> HfSplit:
        return dataclasses.replace(self, rows=self.rows.select(rows), labels=self.labels[rows])

    def own_names(self) -> Iterator[str]:
        """Yields the class directory and the file of each image that has a path, and else a hash of its bytes."""
        for batch in self.rows.select_columns(self.image).iter(1000):
            for cell in batch[self.image]:
                if cell["path"]:
                    yield "/".join(Path(cell["path"]).parts[-2:])
                else:
                    yield hashlib.sha256(cell["bytes"]).hexdigest()

    def input_fn(self, image_size: tuple[int, int], **options: Any) -> InputFn:
        import tensorflow as tf

        from estimator_train import input_fns
        from estimator_train.app.datasets.pipeline import MappedBatches
        from estimator_train.input_fns.images.decoding import decode_image

        spec = tf.TensorSpec((*image_size, 3), tf.float32)

        def load(rows, labels):
            encoded = tf.numpy_function(functools.partial(_encoded, self.rows, self.image), [rows], tf.string)
            encoded.set_shape(rows.shape)
            images = tf.map_fn(lambda each: decode_image(each, image_size), encoded, fn_output_signature=spec)
            return images, tf.one_hot(labels, len(self.class_names))

        return MappedBatches(input_fns.arrays(np.arange(self.count), self.labels, **options), load)


def open_dataset(data_dir: StrPath) -> Dataset:
    """Returns the dataset in a directory: saved by `save_to_disk`, Parquet files, or images laid out for imagefolder.

        data = datasets.open_dataset("hf", "saved/beans")

    Raises FileNotFoundError without the directory, and ValueError if it cannot be loaded; see `open_splits`, too.
    """
    directory = local(data_dir)
    if not directory.is_dir():
        raise FileNotFoundError(f"there is no folder {directory}")
    package = _package("hf")
    load = package.load_dataset
    if (directory / "dataset_dict.json").exists() or (directory / "state.json").exists():
        load = package.load_from_disk
    try:
        splits = load(str(directory))
    except Exception as error:  # its file readers raise errors of many classes
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"{directory} cannot be loaded ({type(error).__name__}: {reason})") from error
    return open_splits("hf", splits)


def open_splits(name: str, splits: Any) -> Dataset:
    """Returns the dataset of a `datasets.DatasetDict` or `datasets.Dataset`.

    It trains on the split `train` and evaluates on `test` or `validation` if that has labels, or else on a fifth of
    `train`, held out by the names of its files, or by hashes of images without names; see `held_out`. If both have
    labels, `validation` is for validation. Raises ValueError if there is no split `train`, or its examples do not have
    exactly one image and one class each.
    """
    package = _package(name)
    if isinstance(splits, package.Dataset):
        splits = {"train": splits}
    if "train" not in splits:
        raise ValueError(f"{name} has no split train, only {quoted(splits)}")
    columns = splits["train"].features
    image, label = _image_and_label(name, columns)
    held_out = [side for side in _HELD_OUT if side in splits and min(splits[side][label]) >= 0][:2]
    if not held_out and holds_out_by_rank():
        splits = splits["train"].train_test_split(test_size=0.2, seed=0, stratify_by_column=label)
        held_out = ["test"]
    class_names = tuple(columns[label].names)
    parts: dict[str, Any] = {}
    for side in ("train", *held_out):
        rows = splits[side].cast_column(image, package.Image(decode=False))
        parts[side] = HfSplit(class_names=class_names, rows=rows, image=image, labels=np.array(splits[side][label]))
    with Image.open(io.BytesIO(_encoded(parts["train"].rows, image, np.array([0]))[0])) as first:
        width, height = first.size
    if not held_out:
        parts["train"], parts["test"] = parts["train"].split(1 / 5, EVALUATION)
    return Dataset(name=name, class_names=class_names, **default_settings(height, width), **sides(parts))


def _image_and_label(name, columns):
    package = _package(name)
    images = [column for column, kind in columns.items() if isinstance(kind, package.Image)]
    labels = [column for column, kind in columns.items() if isinstance(kind, package.ClassLabel)]
    if len(images) != 1 or len(labels) != 1:
        raise ValueError(f"{name} does not have one image and one class per example: it has {quoted(columns)}")
    return images[0], labels[0]


def _encoded(split, column, rows):
    """Returns the encoded images of some rows as an array of bytes, from the table or from files that it names."""
    cells = split[rows.tolist()][column]
    return np.array([cell["bytes"] or Path(cell["path"]).read_bytes() for cell in cells], object)


def _package(name):
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise ValueError(f"{name} needs Hugging Face's datasets: pip install datasets") from error
    return datasets
