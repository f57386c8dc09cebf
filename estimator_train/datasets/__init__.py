"""Datasets by name. Opening one lists its files, or draws them, without TensorFlow."""

import importlib

NAMES = ("synthetic_oct", "oct2017", "images")


def open_dataset(name, data_dir=None, **options):
    """Returns an `images.ImageDataset`.

    Args:
      name: one of `NAMES`.
      data_dir: the folder of the files; synthetic_oct alone does without.
      **options: of that dataset, such as `seed` of synthetic_oct.

    Raises:
      ValueError: there is no dataset of this name, or `data_dir` holds other files than it should.
      FileNotFoundError, NotADirectoryError: `data_dir` is no folder.
    """
    if name not in NAMES:
        raise ValueError(f"there is no dataset {name!r}; pass one of {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}").open_dataset(data_dir, **options)
