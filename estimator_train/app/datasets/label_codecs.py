"""Reads, names and encodes the labels in a manifest, by task."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

_BETWEEN_LABELS = "|"
_LARGEST = float(np.finfo(np.float32).max)


class LabelCodec(NamedTuple):
    """The labels of one task."""

    read: Callable[[str], Any]  # the label in a cell; raises ValueError with the end of a sentence about its row
    names: Callable[[Any], set[str]]  # the classes or labels of an example
    # Labels in the format of `manifest.ManifestImages`, given the names of all classes or labels.
    encode: Callable[[Sequence[Any], Sequence[str]], np.ndarray]
    least_names: int = 0  # that it can train with


def _class_name(text):
    if not text:
        raise ValueError("has no label")
    if _BETWEEN_LABELS in text:
        raise ValueError(f"has several labels, {text!r}, which need the task multilabel")
    return text


def _label_set(text):
    return frozenset(filter(None, map(str.strip, text.split(_BETWEEN_LABELS))))


def _class_indices(labels, names):
    indices = {name: index for index, name in enumerate(names)}
    return np.array([indices[label] for label in labels], np.int64)


def _label_flags(labels, names):
    return np.array([[name in label for name in names] for label in labels], np.float32)


def _column(labels, names):
    return np.array([[label] for label in labels], np.float32)


CODECS = {  # by models.TASKS
    "classification": LabelCodec(_class_name, lambda label: {label}, _class_indices, least_names=2),
    "multilabel": LabelCodec(_label_set, set, _label_flags, least_names=1),
    "regression": LabelCodec(lambda text: read_number(text, "label"), lambda label: set(), _column),
}


def class_of(label: Any) -> str | int | None:
    """Returns the class of an example, encoded or not, which keeps its share when examples are chosen.

    >>> class_of("cat"), class_of(frozenset({"cat", "dog"})), class_of(0.5)
    ('cat', None, None)
    """
    if isinstance(label, (str, int)):
        return label
    return None


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
