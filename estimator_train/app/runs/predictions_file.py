"""predictions.csv in the directory of a run: how the last evaluation classified each example, for `compare`."""

import csv
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from estimator_train._engine.host.files import printable, write_whole
from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.metrics import tasks
from estimator_train.app.runs import csv_text

NAME = "predictions.csv"
_COLUMNS = ["example", "true_class", "predicted_class", "probability"]


class Prediction(NamedTuple):
    """An example's true class, and the class that the model predicts."""

    true_class: str
    predicted_class: str
    probability: str  # of the predicted class

    @property
    def is_right(self) -> bool:
        return self.predicted_class == self.true_class


def write(
    model_dir: StrPath, data: Any, class_names: tuple[str, ...], labels: np.ndarray, probabilities: np.ndarray
) -> None:
    """Replaces the predictions of the run in `model_dir`, those for the evaluation examples of the dataset `data`.

    `labels` are class indices of shape (examples,), and `probabilities` of shape (examples, classes).
    """
    names = image_names(data) or map(str, range(len(labels)))
    examples = zip(names, labels, probabilities.argmax(axis=1), probabilities.max(axis=1), strict=True)
    rows = [[name, class_names[label], class_names[index], f"{most:.4f}"] for name, label, index, most in examples]
    write_whole(as_path(model_dir, NAME), csv_text.text_of([_COLUMNS, *rows]))


def rows_of(
    task: str,
    columns: tuple[str, ...],
    data: Any,
    labels: np.ndarray,
    outputs: np.ndarray,
    thresholds: Mapping[str, float] | None = None,
) -> list[list[Any]]:
    """Returns the true and the predicted value of each example of an evaluation, with every probability.

    The first row has the names. `columns` are the names of the classes or labels, `data` is the dataset, or None for an
    input_fn, and `thresholds` are the least probability of each label, instead of 0.5.
    """
    module = tasks.named(task, thresholds)
    # A dataset of image files is evaluated once, in sorted order; other datasets have no names for their examples.
    paths = image_paths(data)
    names = [printable(path) for path in paths] or range(len(labels))
    rows: list[list[Any]] = [
        ["file" if paths else "example", f"true_{module.KIND}", f"predicted_{module.KIND}", *columns]
    ]
    for name, label, values in zip(names, labels, outputs, strict=True):
        both = module.truth(columns, label), module.prediction(columns, values)
        rows.append([name, *both, *(values.tolist() if columns else ())])
    return rows


def write_all(file: StrPath, *about: Any) -> None:
    """Writes the `rows_of` an evaluation to `file` as comma-separated values, completely or not at all."""
    write_whole(file, csv_text.text_of(rows_of(*about)))


def read(model_dir: StrPath) -> dict[str, Prediction] | None:
    """Returns {example name: prediction} of the run in `model_dir`, or None if it has no readable predictions.csv."""
    try:
        header, *rows = csv_text.rows_of(as_path(model_dir, NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, csv.Error):
        return None
    if header != _COLUMNS or any(len(row) != len(header) for row in rows):
        return None
    return {name: Prediction(*values) for name, *values in rows}


def image_paths(data: Any) -> list[str]:
    """Returns the paths of the evaluation images in order; empty without a dataset of image files."""
    paths = (data and data.image_paths()) or {"eval": []}
    return sorted(paths["eval"])


def image_names(data: Any) -> list[str]:
    """Returns each evaluation image as DIRECTORY/FILE, with more parent directories if several end in the same two."""
    paths = [Path(path) for path in image_paths(data)]
    names = _endings(set(paths))
    return [printable(names[path]) for path in paths]


def _endings(paths: Iterable[Path], parts: int = 2) -> dict[Path, str]:
    """Returns the shortest end of each path, of at least so many parts, that no other one has."""
    by_ending: dict[str, list[Path]] = {}
    for path in paths:
        by_ending.setdefault(os.path.join(*path.parts[-parts:]), []).append(path)
    endings: dict[Path, str] = {}
    for ending, same in by_ending.items():
        if len(same) == 1:
            endings[same[0]] = ending
        else:
            endings |= _endings(same, parts + 1)
    return endings
