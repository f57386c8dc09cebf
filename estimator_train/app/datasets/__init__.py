"""Datasets by name. Opening one lists, draws or downloads its files, without TensorFlow.

Each dataset is a module with `ABOUT`, a `dataset.About`, and `open_dataset(data_dir, **options)`, which returns a
`dataset.Dataset`; only some have a default of `data_dir`. Those that do not need the user's own files have the default
None, and `download(data_dir=None)`, which returns the data's directory, and `is_here()`; it takes `data_dir`, too, if
`open_dataset` downloads or unpacks into that. Other packages add modules with the entry-point group
`estimator_train.datasets`; if names collide, the module here is used:

    setup(..., entry_points={"estimator_train.datasets": ["my_scans = my_package.my_scans"]})
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import os
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from estimator_train._engine.host.files import quoted
from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.datasets.class_weights import class_weights
from estimator_train.app.datasets.dataset import check_classes
from estimator_train.app.datasets.images import checked_directory, subdirectories
from estimator_train.app.errors import SettingError

if TYPE_CHECKING:
    from estimator_train.app.datasets import hf, tfds
    from estimator_train.app.datasets.dataset import Dataset

NAMES = ("synthetic_oct", "oct2017", "images", "manifest", "fashion_mnist", "cats_vs_dogs", "npz", "tfrecord", "hf")

__all__ = [
    "NAMES",
    "class_weights",
    "download",
    "is_here",
    "named",
    "named_by",
    "names",
    "open_dataset",
    "open_evaluation",
]

_GROUP = "estimator_train.datasets"
_IN_FILES = {".csv": "manifest", ".npz": "npz"}  # by the ending of the file
_FOLDERS = ("oct2017", "cats_vs_dogs", "synthetic_oct")  # of class folders, as images takes them


def open_dataset(
    name: str, data_dir: StrPath | None = None, *, limit: int | None = None, limit_seed: int = 0, **options: Any
) -> Dataset:
    """Returns a `dataset.Dataset`.

        >>> data = open_dataset("synthetic_oct", "scans", draw=False)
        >>> data.train_examples, data.class_names
        (800, ('CNV', 'DME', 'DRUSEN', 'NORMAL'))

    Args:
      name: one of `names()`, tfds:NAME of TensorFlow Datasets, or hf:NAME of Hugging Face.
      data_dir: directory or file of the data; None for datasets with a default place.
      limit: maximum number of training examples, and of evaluation examples, chosen by `limit_seed`.
      **options: options of the dataset, such as `seed` of synthetic_oct or `split` of oct2017.

    Raises:
      ValueError: the name or an option is unknown, `data_dir` does not hold the expected files, or a package that only
        this dataset needs is not installed.
      FileNotFoundError, NotADirectoryError, ConnectionError: the data is not there, or could not be downloaded.
    """
    module = named(name)
    parameters = inspect.signature(module.open_dataset).parameters
    if unknown := options.keys() - parameters.keys():
        raise ValueError(f"{name} takes no option {', '.join(sorted(unknown))}")
    if data_dir is None and next(iter(parameters.values())).default is inspect.Parameter.empty:
        raise SettingError("{0} needs {data_dir}, {1}", name, module.ABOUT.source)
    data = module.open_dataset(data_dir, **options)
    return data if limit is None else data.limited(limit, limit_seed)


def open_evaluation(
    name: str,
    data_dir: StrPath | None,
    class_names: Sequence[str],
    *,
    task: str = "classification",
    image_size: tuple[int, int],
) -> Dataset:
    """Returns a dataset of a run's classes, to evaluate on; the arguments and errors are those of `open_dataset`.

    All images of a folder of class folders, and all rows of a CSV file, are evaluated, unless it has a test or val
    part; of other datasets, their evaluation examples are. Raises ValueError, which names the classes that differ, if
    it has others than `class_names`.

        >>> data = datasets.open_dataset("synthetic_oct", "scans")
        >>> other = datasets.open_evaluation("images", "scans/train", data.class_names, image_size=(96, 96))
        >>> other.eval_examples
        800
    """
    module = named(name)
    if name in _FOLDERS and data_dir is not None and not as_path(data_dir).is_file():  # of oct2017, a zip
        module = named("images")
    if data_dir is not None and hasattr(module, "open_evaluation"):
        return module.open_evaluation(data_dir, class_names, task=task, image_size=image_size)
    data = open_dataset(name, data_dir)
    check_classes(data_dir or name, data.class_names, class_names)
    if data.class_names != tuple(class_names):
        raise ValueError(f"{data_dir or name} has the classes of the run in another order: {quoted(data.class_names)}")
    return data


def download(name: str, data_dir: StrPath | None = None) -> StrPath:
    """Downloads or draws a dataset into `data_dir`, or its default directory, and returns the directory.

    Raises ValueError for a dataset of the user's own files.
    """
    module = named(name)
    if not hasattr(module, "download"):
        raise ValueError(f"there is nothing to download for {name}: it takes {module.ABOUT.source}")
    return module.download(data_dir)


def is_here(name: str, data_dir: StrPath | None = None) -> bool:
    """Returns whether opening a dataset would neither download nor unpack it; raises ValueError for an unknown name.

    >>> datasets.is_here("images", "scans")
    True
    """
    check = getattr(named(name), "is_here", None)
    if check is None:
        return True
    if data_dir is None:
        return check()
    return "data_dir" not in inspect.signature(check).parameters or check(data_dir)


def names() -> tuple[str, ...]:
    """Returns the names of all datasets, including those of other packages.

    >>> datasets.names()[:3]
    ('synthetic_oct', 'oct2017', 'images')
    """
    return (*NAMES, *sorted(_entry_points().keys() - set(NAMES)))


def named(name: str) -> ModuleType | hf.Named | tfds.Named:
    """Returns the module of a dataset, or an object with the same interface.

    >>> datasets.named("oct2017").ABOUT.task
    'retinal OCT, 4 classes'
    """
    if name.startswith("tfds:"):
        from estimator_train.app.datasets import tfds

        return tfds.Named(name.removeprefix("tfds:"))
    if name.startswith("hf:"):
        from estimator_train.app.datasets import hf

        return hf.Named(name.removeprefix("hf:"))
    if name in NAMES:
        return importlib.import_module(f"{__name__}.{name}")
    others = _entry_points()
    if name not in others:
        raise ValueError(f"there is no dataset {name!r}; pass one of {', '.join(names())}, or tfds:NAME, or hf:NAME")
    return others[name].load()


def named_by(data_dir: StrPath) -> str:
    """Returns the name of the dataset in a directory of class directories or a file.

    A directory has images, or oct2017 in its tree; a .csv file is a manifest, and an .npz file is npz.

        >>> for name in ("cat", "dog"):
        ...     os.makedirs(f"pets/{name}")
        >>> named_by("pets")
        'images'

    Raises ValueError if a directory has no subdirectories; see `images.checked_directory`, too.
    """
    in_file = _IN_FILES.get(os.path.splitext(data_dir)[1].lower())
    if in_file and not as_path(data_dir).is_dir():
        return in_file
    directory = checked_directory(data_dir)
    if importlib.import_module(f"{__name__}.oct2017").is_in(directory):
        return "oct2017"
    if not subdirectories(directory):
        raise ValueError(f"{directory} has no class folders")
    return "images"


def _entry_points():
    return {point.name: point for point in importlib.metadata.entry_points(group=_GROUP)}
