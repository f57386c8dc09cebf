"""Finds labels that can be trained on, but look like mistakes in the data, for the plan of a training."""

import collections
import unicodedata
from typing import Any

from estimator_train._engine.host.files import printable, quoted
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.datasets.manifest import ManifestImages, by_image

# Programs write these for a missing value; in lower case.
_MISSING = {"nan", "n/a", "#n/a", "<na>", "nat", "null"}


def doubtful_labels(data: Dataset) -> dict[str, str]:
    """Returns {name of a line of the plan: what looks wrong in the labels}; empty if nothing does.

    >>> data = datasets.open_dataset("synthetic_oct", "scans", draw=False)
    >>> import dataclasses
    >>> doubtful_labels(dataclasses.replace(data, class_names=("RED", "red", "nan")))
    {'spelling': "'RED' and 'red' are different classes", 'no label': "'nan' is a class, and may mean a missing label"}
    """
    kind = "label" if data.task == "multilabel" else "class"
    several = "labels" if data.task == "multilabel" else "classes"
    lines = {}
    if found := _under_two_labels(data):
        path, names = next(iter(found.items()))
        images = "1 image is" if len(found) == 1 else f"{len(found)} images are"
        lines["two classes"] = f"{images} listed in several classes, such as {printable(path)} in {quoted(names)}"
    spellings = collections.defaultdict(list)
    for name in data.class_names:
        spellings[_folded(name)].append(name)
    if alike := [names for names in spellings.values() if len(names) > 1]:
        lines["spelling"] = "; ".join(f"{' and '.join(map(repr, names))} are different {several}" for names in alike)
    if missing := [name for name in data.class_names if _folded(name) in _MISSING]:
        lines["no label"] = f"{quoted(missing)} is a {kind}, and may mean a missing label"
    return lines


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _under_two_labels(data: Dataset) -> dict[str, list[str]]:
    """Returns {path: names of its classes} of the images that rows of a manifest give several classes."""
    if data.task != "classification" or not isinstance(data.train, ManifestImages):
        return {}
    paths: list[str] = []
    labels: list[Any] = []
    for part in data.parts.values():
        paths += part.paths
        labels += part.labels.tolist()
    found = {}
    for rows in by_image(paths).values():
        if len(classes := sorted({labels[row] for row in rows})) > 1:
            found[paths[rows[0]]] = [data.class_names[index] for index in classes]
    return found
