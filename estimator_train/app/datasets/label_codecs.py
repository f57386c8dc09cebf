"""Reads, names, counts and encodes the labels in a manifest, by task."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_BETWEEN_LABELS = "|"
_LARGEST = float(np.finfo(np.float32).max)


class LabelCodec(abc.ABC):
    """The labels of one task; `least_names` is the smallest number of classes or labels that it can train with."""

    least_names = 0

    @abc.abstractmethod
    def read(self, text: str) -> Any:
        """Returns the label in a cell; raises ValueError with the end of a sentence about its row."""

    @abc.abstractmethod
    def encode(self, labels: Sequence[Any], names: Sequence[str]) -> np.ndarray:
        """Returns the labels in the format of `manifest.ManifestImages`."""

    def names(self, label: Any) -> set[str]:
        """Returns the classes or labels of an example."""
        return set()

    def group(self, label: Any) -> Any:
        """Returns the group of a label, encoded or not, which keeps its share when examples are chosen."""
        return None

    def num_classes(self, names: Sequence[str]) -> int | None:
        """Returns the length of one-hot labels, or None if encoded labels need no conversion."""
        return None

    def counts(self, encoded: np.ndarray, names: Sequence[str]) -> dict[str, int]:
        """Returns the number of examples of each class or label."""
        return {}

    def moments(self, encoded: np.ndarray, weights: np.ndarray | None) -> tuple[float, float] | None:
        """Returns the mean and standard deviation of numbers; None for other labels."""
        return None


class _ClassName(LabelCodec):
    least_names = 2

    def read(self, text: str) -> str:
        if not text:
            raise ValueError("has no label")
        if _BETWEEN_LABELS in text:
            raise ValueError(f"has several labels, {text}, which need the task multilabel")
        return text

    def encode(self, labels: Sequence[str], names: Sequence[str]) -> np.ndarray:
        indices = {name: index for index, name in enumerate(names)}
        return np.array([indices[label] for label in labels], np.int64)

    def names(self, label: str) -> set[str]:
        return {label}

    def group(self, label: Any) -> Any:
        return label

    def num_classes(self, names: Sequence[str]) -> int:
        return len(names)

    def counts(self, encoded: np.ndarray, names: Sequence[str]) -> dict[str, int]:
        return dict(zip(names, np.bincount(encoded, minlength=len(names)).tolist(), strict=True))


class _LabelSet(LabelCodec):
    least_names = 1

    def read(self, text: str) -> frozenset[str]:
        return frozenset(filter(None, map(str.strip, text.split(_BETWEEN_LABELS))))

    def encode(self, labels: Sequence[frozenset[str]], names: Sequence[str]) -> np.ndarray:
        return np.array([[name in label for name in names] for label in labels], np.float32)

    def names(self, label: frozenset[str]) -> set[str]:
        return set(label)

    def counts(self, encoded: np.ndarray, names: Sequence[str]) -> dict[str, int]:
        return dict(zip(names, encoded.sum(axis=0).astype(int).tolist(), strict=True))


class _Number(LabelCodec):
    def read(self, text: str) -> float:
        return read_number(text, "label")

    def encode(self, labels: Sequence[float], names: Sequence[str]) -> np.ndarray:
        return np.array([[label] for label in labels], np.float32)

    def moments(self, encoded: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
        mean = float(np.average(encoded[:, 0], weights=weights))
        variance = float(np.average((encoded[:, 0] - mean) ** 2, weights=weights))
        return mean, math.sqrt(variance) or 1.0


CODECS = {"classification": _ClassName(), "multilabel": _LabelSet(), "regression": _Number()}  # by models.TASKS


def read_number(text: str, column: str) -> float:
    """Returns the number in a cell; raises ValueError with the end of a sentence about its row."""
    if not is_number(text):
        raise ValueError(f"has the {column} {text!r}, which is not a number")
    number = float(text)
    if abs(number) > _LARGEST:
        raise ValueError(f"has the {column} {text}, which float32 cannot hold")
    return number


def is_number(text: str) -> bool:
    """Returns whether a text is a finite number.

    >>> is_number("1e3"), is_number("nan")
    (True, False)
    """
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
