"""Datasets by name. Opening one lists its files, draws or downloads them, without TensorFlow.

Each is a module that has `ABOUT`, of `dataset.About`, and `open_dataset(data_dir=None, **options)`, which returns a
`dataset.Dataset`. Those that need no files of the user's own have, too, `download(data_dir=None)`, which returns the
folder that the data is then in, and `is_here()`. Modules of other packages join by the entry-point group
`estimator_train.datasets`; of two with one name, the one here is taken:

    setup(..., entry_points={"estimator_train.datasets": ["my_scans = my_package.my_scans"]})
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from estimator_train.datasets.class_weights import class_weights

if TYPE_CHECKING:
    from estimator_train.datasets import hf, tfds
    from estimator_train.datasets.dataset import Dataset

NAMES = ("synthetic_oct", "oct2017", "images", "manifest", "fashion_mnist", "cats_vs_dogs", "npz", "tfrecord", "hf")

__all__ = ["NAMES", "class_weights", "download", "named", "names", "open_dataset"]

_GROUP = "estimator_train.datasets"


def open_dataset(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    limit: int | None = None,
    limit_seed: int = 0,
    **options: Any,
) -> Dataset:
    """Returns a `dataset.Dataset`.

    Args:
      name: one of `names()`, tfds:NAME of TensorFlow Datasets, or hf:NAME of Hugging Face.
      data_dir: the folder or file of the data; None where the dataset can do without.
      limit: takes at most so many examples to train on, and to evaluate on: see `dataset.stratified`.
      limit_seed: of the choice of these.
      **options: of that dataset, such as `seed` of synthetic_oct or `split` of oct2017.

    Raises:
      ValueError: there is no dataset of this name, it has no such option, `data_dir` holds other files than it should,
        or a package that only this dataset needs is not installed.
      FileNotFoundError, NotADirectoryError: there is no `data_dir`, or it is no folder.
      ConnectionError: the data could not be downloaded.
    """
    module = named(name)
    unknown = options.keys() - inspect.signature(module.open_dataset).parameters.keys()
    if unknown:
        raise ValueError(f"{name} has no {', '.join(sorted(unknown))} to choose")
    data = module.open_dataset(data_dir, **options)
    return data if limit is None else data.limited(limit, limit_seed)


def download(name: str, data_dir: str | os.PathLike[str] | None = None) -> str | os.PathLike[str]:
    """Gets the data of a dataset into `data_dir`, or where it is looked for without one, and returns the folder.

    Raises:
      ValueError: the dataset is of files of the user's own.
    """
    module = named(name)
    if not hasattr(module, "download"):
        raise ValueError(f"there is nothing to download for {name}: it takes {module.ABOUT.source}")
    return module.download(data_dir)


def names() -> tuple[str, ...]:
    """Returns the names of all datasets, of other packages too."""
    return (*NAMES, *sorted(_entry_points().keys() - set(NAMES)))


def named(name: str) -> ModuleType | hf.Named | tfds.Named:
    """Returns the module of a dataset."""
    if name.startswith("tfds:"):
        from estimator_train.datasets import tfds

        return tfds.Named(name.removeprefix("tfds:"))
    if name.startswith("hf:"):
        from estimator_train.datasets import hf

        return hf.Named(name.removeprefix("hf:"))
    if name in NAMES:
        return importlib.import_module(f"{__name__}.{name}")
    others = _entry_points()
    if name not in others:
        raise ValueError(f"there is no dataset {name!r}; pass one of {', '.join(names())}, or tfds:NAME, or hf:NAME")
    return others[name].load()


def _entry_points():
    return {point.name: point for point in importlib.metadata.entry_points(group=_GROUP)}
