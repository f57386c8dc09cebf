"""Compares numbers and text by name."""

import math
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np


class Compared(NamedTuple):
    """A value of both sides: how many numbers it has, and the two that differ most, with their difference."""

    name: Any
    values: int
    old: Any
    new: Any
    difference: float


class Comparison(NamedTuple):
    """The values of both sides, and the names of those that only one side has."""

    compared: list[Compared]
    only_old: list[Any]
    only_new: list[Any]

    @property
    def values(self) -> int:
        """The number of all values."""
        return sum(each.values for each in self.compared) + len(self.only_old) + len(self.only_new)

    @property
    def largest(self) -> float:
        """The largest difference, infinite if only one side has a value."""
        if self.only_old or self.only_new:
            return math.inf
        return max((each.difference for each in self.compared), default=0.0)


def compare(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> Comparison:
    """Compares the values of two sides, in the order of their names in `old`.

    A difference is relative to the old value, or absolute if that is below 1. It is infinite if texts, shapes, or what
    is not a number differ.

    >>> compare({"loss": 2.0, "step": 1}, {"loss": 2.5, "time": 3.0}).compared
    [Compared(name='loss', values=1, old=2.0, new=2.5, difference=0.25)]
    """
    compared = [_compared(name, np.asarray(value), np.asarray(new[name])) for name, value in old.items() if name in new]
    only_old, only_new = ([name for name in one if name not in other] for one, other in ((old, new), (new, old)))
    return Comparison(compared, only_old, only_new)


def _compared(name: Hashable, old: np.ndarray, new: np.ndarray) -> Compared:
    if old.shape != new.shape:
        old_shape, new_shape = ("x".join(map(str, each.shape)) or "a scalar" for each in (old, new))
        return Compared(name, old.size, old_shape, new_shape, math.inf)
    if not old.size:
        return Compared(name, 0, "", "", 0.0)
    differences = _differences(old, new)
    worst = np.unravel_index(np.argmax(differences), differences.shape)
    return Compared(name, old.size, old.item(worst), new.item(worst), float(differences[worst]))


def _differences(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    if old.dtype.kind in "OSU" or new.dtype.kind in "OSU":
        return np.where(old == new, 0.0, math.inf)
    old, new = old.astype(np.float64), new.astype(np.float64)
    with np.errstate(invalid="ignore"):
        differences = np.abs(new - old) / np.maximum(1, np.abs(old))
    is_equal = (old == new) | (np.isnan(old) & np.isnan(new))
    return np.where(is_equal, 0.0, np.nan_to_num(differences, nan=math.inf, posinf=math.inf))
