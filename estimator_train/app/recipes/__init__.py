"""Recipes by name: complete training programs, from data to metrics, that also serve as examples.

Each recipe is a module with `train(model_dir, *, strategy=None, hooks=(), ...)`, which trains in `model_dir`,
continuing from its checkpoint if there is one, evaluates, and returns the metrics. Its other keyword arguments are the
recipe's settings.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

ABOUT = {
    "segmentation": "a U-Net that finds the lines of tables, fed by a Python generator that augments on the fly",
    "cats_vs_dogs": "MobileNetV2 that tells cats from dogs, with a table of before and after training",
    "cyclegan": "CycleGAN, which turns images of one kind into another and back, such as apples and oranges",
    "unet3d": "a 3-D U-Net that segments volumes, on one device, on replicas or split over devices",
}
NAMES = tuple(ABOUT)


def named(name: str) -> ModuleType:
    """Returns the module of a recipe, which imports TensorFlow.

        >>> named("unet3d").VOLUME
        32

    Raises:
      ValueError: there is no recipe of this name.
    """
    _check(name)
    return importlib.import_module(f"{__name__}.{name}")


def settings_of(name: str) -> list[str]:
    """Returns the names of a recipe's settings, read without TensorFlow.

        >>> settings_of("unet3d")[:3]
        ['volume', 'filters', 'batch_size']

    Raises:
      ValueError: there is no recipe of this name.
    """
    _check(name)
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text())
    (train,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "train")
    return [argument.arg for argument in train.args.kwonlyargs if argument.arg not in ("strategy", "hooks")]


def _check(name):
    if name not in NAMES:
        raise ValueError(f"there is no recipe {name!r}; pass one of {', '.join(NAMES)}")
