"""Images listed in a CSV file, one per row, with a class, several labels or a number."""

import collections
import csv
import dataclasses
import hashlib
import io
import math
import os
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_train._engine.host.files import quoted
from estimator_train._engine.host.paths import StrPath, as_path, file_finder, is_remote
from estimator_train.app.datasets.dataset import PHOTOGRAPHS, About, Dataset, check_classes, sides
from estimator_train.app.datasets.held_out import EVALUATION, holds_out_by_rank, is_held_out
from estimator_train.app.datasets.images import HELD_OUT, SUFFIXES, ImageFiles
from estimator_train.app.datasets.label_codecs import CODECS, class_of, is_number, read_number
from estimator_train.app.datasets.part import InputFn, Part, held_out
from estimator_train.app.errors import SettingError
from estimator_train.app.models import TASKS

ABOUT = About("classification, multilabel, regression", "any", "a CSV file with the columns path and label")

_COLUMNS = ("path", "label", "split", "weight")  # the last two are optional
# Other names of the columns, in lower case. Errors name them; see `_taken` for those that are taken.
_OTHER_NAMES = {
    "path": (
        *("path", "paths", "image", "images", "image_id", "image_name", "image_path", "img", "img_path", "id"),
        *("file", "files", "file_name", "filename", "file_path", "filepath"),
    ),
    "label": (
        *("label", "labels", "class", "classes", "class_name", "class_label", "category", "diagnosis", "dx", "target"),
        *("finding", "findings", "tag", "tags", "species", "breed", "y"),
    ),
}
_SHOWN = 10  # errors listed in a message


class Row(NamedTuple):
    """A valid row."""

    path: str
    label: Any  # a class name, a set of labels or a number
    split: str | None
    weight: float
    key: str  # the path as written and the line number, independent of where the files are
    name: str  # of the image, the same in all of its rows wherever the files are, by which it is held out


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ManifestImages(ImageFiles):
    """Image files in the order of their paths, which may repeat, with labels and weights.

    Labels are class indices of shape (n,); 0 or 1 for each label, float32 of shape (n, labels); or float32 numbers of
    shape (n, 1). `weights`, float32 of shape (n,), are the training part's; None counts all examples alike.
    """

    PER_EXAMPLE = (*ImageFiles.PER_EXAMPLE, "image_names", "weights")

    labels: np.ndarray
    image_names: list[str]
    weights: np.ndarray | None = None

    def own_names(self) -> list[str]:
        return self.image_names

    def groups(self) -> list[Hashable]:
        return [class_of(label) for label in self.labels.tolist()]

    def counts(self) -> dict[str, int]:
        """Returns {class or label: number of images with it}, empty for regression."""
        if not self.class_names:
            return {}
        if self.labels.ndim == 1:
            numbers = np.bincount(self.labels, minlength=len(self.class_names))
        else:
            numbers = self.labels.sum(axis=0).astype(int)
        return dict(zip(self.class_names, numbers.tolist(), strict=True))

    def moments(self) -> tuple[float, float] | None:
        if self.class_names:
            return None
        numbers = self.labels[:, 0]
        mean = float(np.average(numbers, weights=self.weights))
        variance = float(np.average((numbers - mean) ** 2, weights=self.weights))
        return mean, math.sqrt(variance) or 1.0  # a deviation of 0 would divide by 0

    def split_by_rank(self, share: float) -> tuple[Part, Part]:
        """Holds out images, which may be listed several times, with all of their rows."""
        groups, images = self.groups(), {}
        for rows in by_image(self.paths).values():
            images.setdefault(groups[rows[0]], {})[self.keys[rows[0]]] = tuple(rows)
        chosen = held_out(images, share, self.class_names)
        kept, held = self.parted(row for rows in chosen for row in rows)
        for name, number in kept.counts().items():
            if not number:
                raise ValueError(f"label {name!r} has too few training images to hold out {share:g} of them")
        return kept, held

    def parted(self, rows: Iterable[int]) -> tuple["ManifestImages", "ManifestImages"]:
        """Returns the part without some rows, and a part of these, whose evaluation counts all images alike."""
        kept, held = super().parted(rows)
        return kept, dataclasses.replace(held, weights=None)

    def input_fn(self, image_size: tuple[int, int], **options: Any) -> InputFn:
        if self.labels.ndim > 1:  # not class indices
            options["num_classes"] = None
        return super().input_fn(image_size, sample_weight=self.weights, **options)


def open_dataset(data_dir: StrPath, *, task: str = "classification") -> Dataset:
    """Returns the dataset in a CSV file, given as `data_dir`.

    Its first line names the columns: `path`, relative to the file, and `label`. Under other names they are taken if no
    second column can be meant: the only one of files that exist, and the only one with a usual name for labels, such as
    diagnosis, or whose values repeat. Optional columns are `split` (train, or
    test, val, valid or validation: the first that occurs evaluates, the next one is for validation) and `weight` (the
    example's weight in the training loss); others are ignored. Without `split`, the paths of the images hold out a
    fifth, with all of their rows; see `held_out`. The `task` is the meaning of `label`:
    "classification" for a class name; "multilabel" for any number of labels separated by |; "regression" for a number.

        data = open_dataset("labels.csv", task="multilabel")

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: `task` is unknown, a column is missing, or rows are invalid, for example because their image does not
        exist. The message lists the first ten with their line numbers.
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    file, codec = os.fspath(data_dir), CODECS[task]
    rows, columns = _read(file, codec)
    by_part = _by_part(file, rows, codec)
    train = by_part["train"]
    names = _class_names(file, train, rows, codec)
    if not any(row.weight for row in train):
        raise ValueError(f"{file} has no training row with a weight above 0")
    parts = {name: _part(of_part, codec, names) for name, of_part in by_part.items()}
    weights = np.array([row.weight for row in train], np.float32)
    if (weights != 1).any():
        parts["train"] = dataclasses.replace(parts["train"], weights=weights)
    left_out = {row.split for row in rows if row.split} - by_part.keys()
    return Dataset(
        name="manifest",
        task=task,
        class_names=names,
        **PHOTOGRAPHS,
        **sides(parts),
        left_out=tuple(sorted(left_out)),
        columns=columns,
    )


def open_evaluation(
    data_dir: StrPath, class_names: Sequence[str], *, task: str = "classification", image_size: tuple[int, int]
) -> Dataset:
    """Returns the dataset of the evaluation rows of a CSV file, or of all if it has no column `split`.

        data = open_evaluation("more.csv", ["cat", "dog"], image_size=(96, 96))

    Raises as `open_dataset`, or ValueError, which names the classes or labels that differ from `class_names`.
    """
    file, codec = os.fspath(data_dir), CODECS[task]
    rows, _ = _read(file, codec)
    splits = {row.split for row in rows}
    taken = next((side for side in HELD_OUT if side in splits), None)
    rows = [row for row in rows if row.split == taken]
    if not rows:
        raise ValueError(f"{file} has no evaluation rows: add rows, or give some the split {HELD_OUT[0]}")
    # A few rows need not have all classes.
    check_classes(file, {*class_names, *(label for row in rows for label in codec.names(row.label))}, class_names)
    names = tuple(class_names)
    return Dataset(
        name="manifest",
        task=task,
        class_names=names,
        **{**PHOTOGRAPHS, "image_size": image_size},
        train=_part([], codec, names),
        eval=_part(rows, codec, names),
    )


def _part(rows, codec, class_names):
    return ManifestImages(
        class_names=class_names,
        paths=[row.path for row in rows],
        keys=[row.key for row in rows],
        image_names=[row.name for row in rows],
        labels=codec.encode([row.label for row in rows], class_names),
    )


def _read(file, codec):
    """Returns the valid rows of a file, in the order of their paths, and {name of a column: what it is taken for}.

    Raises ValueError if some are invalid.
    """
    path = as_path(file)
    if path.is_dir():
        text = "{0} is a folder; give the CSV file in it, or {dataset=images} for class folders"
        raise SettingError(text, file)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {file}")
    rows, faults, is_there = [], [], file_finder()
    try:
        reader = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), skipinitialspace=True)
        columns = [name.strip() for name in next(reader, [])]
        lines = [(reader.line_num, cells) for cells in reader if cells]  # without blank ones
        taken = _taken(columns, [cells for _, cells in lines if len(cells) == len(columns)], file, is_there)
        columns = [taken.get(name, name) for name in columns]
        _check_columns(file, columns)
        for number, cells in lines:
            try:
                rows.append(_row(cells, columns, number, file, codec))
                if not is_there(rows[-1].path):
                    raise ValueError(f"has the path {cells[columns.index('path')]}, but there is no such file")
            except ValueError as error:
                faults.append(f"line {number} {error}")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text: {error}") from error
    except csv.Error as error:
        raise ValueError(f"{file} line {reader.line_num}: {error}") from error
    if faults:
        raise ValueError(f"{file} has bad rows: {_first_of(faults, '; ', '; and')}")
    return sorted(rows, key=lambda row: row.path), taken


def _taken(columns, lines, file, is_there):
    """Returns {name of a column: path or label} for those that have other names, if it is clear which are meant.

    The path is the only column whose first line names a file. The label is the only other one with a usual name, or
    if none has one, the only one whose values repeat.
    """
    missing = [name for name in _COLUMNS[:2] if name not in columns]
    if not lines or len(set(columns)) < len(columns) or _has_no_names(columns):
        return {}
    values = dict(zip(columns, zip(*lines, strict=True), strict=True))
    paths = ["path"]
    if "path" in missing:
        paths = [name for name in columns if is_there(_place(values[name][0].strip(), file))]
    labels = ["label"]
    if "label" in missing:
        others = [name for name in columns if name not in (*_COLUMNS, *paths)]
        usual = [name for name in others if _spelled(name) in _OTHER_NAMES["label"]]
        labels = usual or [name for name in others if 1 < len(set(values[name])) < len(lines)]
    if len(paths) != 1 or len(labels) != 1:
        return {}
    meant = {"path": paths[0], "label": labels[0]}
    return {meant[name]: name for name in missing}


def _has_no_names(columns):
    """Returns whether the first line of a table is an image's rather than the names of its columns."""
    return any(name.lower().endswith(SUFFIXES) for name in columns)


def _check_columns(file, columns):
    """Raises ValueError, which says what to rename, unless the columns that are needed are there once."""
    needed = [name for name in _COLUMNS if columns.count(name) > 1 or name in _COLUMNS[:2] and name not in columns]
    if not needed:
        return
    fault = f"{file} needs one column {' and one column '.join(needed)}; its first line has "
    fault += quoted(columns) or "nothing"
    for sign in ";\t":
        if sign in "".join(columns[:1]):
            raise ValueError(f"{fault}, and {sign!r} instead of commas")
    if _has_no_names(columns):
        raise ValueError(f"{fault}: begin the file with a line of the columns' names, such as path,label")
    missing = [name for name in needed if name not in columns]
    others = {name: [each for each in columns if _spelled(each) in _OTHER_NAMES[name]] for name in missing}
    if renamed := [f"{theirs[0]!r} to {name}" for name, theirs in others.items() if theirs]:
        fault += f": rename {' and '.join(renamed)}"
    if "path" in missing:
        fault += "; a path is relative to the CSV file, with the ending of the image, such as scans/1.jpeg"
    raise ValueError(fault)


def _spelled(column):
    return re.sub(r"[\s-]+", "_", column.casefold())


def _first_of(texts, between, last):
    shown = between.join(texts[:_SHOWN])
    if len(texts) <= _SHOWN:
        return shown
    return f"{shown}{last} {len(texts) - _SHOWN} more"


def _row(cells, columns, line, file, codec):
    if len(cells) != len(columns):
        raise ValueError(f"has {len(cells)} values for {len(columns)} columns")
    values = {name: value.strip() for name, value in zip(columns, cells, strict=True)}
    if not values["path"]:
        raise ValueError("has no path")
    path = _place(values["path"], file)
    split = values.get("split")
    if split not in (None, "train", *HELD_OUT):
        raise ValueError(f"has the split {split!r}, not train, {', '.join(HELD_OUT[:-1])} or {HELD_OUT[-1]}")
    weight = read_number(values.get("weight", "1"), "weight")
    if weight < 0:
        raise ValueError(f"has the weight {values['weight']}, which is less than 0")
    name = _image_name(values["path"], file)
    return Row(path, codec.read(values["label"]), split, weight, f"{values['path']}:{line}", name)


def _place(path, file):
    """Returns the place of an image whose path is relative to the file."""
    if is_remote(path):
        return path
    return os.path.join(os.path.dirname(file), path)


def _image_name(path, file):
    """Returns an image's path relative to the CSV file, unless it is an absolute one that leads elsewhere."""
    directory = os.path.dirname(file)
    if not is_remote(path):
        path, directory = os.path.normpath(path), os.path.abspath(directory)
    return path.removeprefix(f"{directory}/")


def _by_part(file, rows, codec):
    """Returns {split: rows} of the parts: to train on, to evaluate on and perhaps to validate with."""
    if rows and rows[0].split is None:
        chosen = {row for row in rows if is_held_out(row.name, 1 / 5, EVALUATION)}
        if holds_out_by_rank():
            chosen = _a_fifth_by_rank(rows, codec)
        parts = {"train": [row for row in rows if row not in chosen], "test": [row for row in rows if row in chosen]}
    else:
        splits = {row.split for row in rows}
        held_out_splits = [name for name in HELD_OUT if name in splits] or [HELD_OUT[0]]
        parts = {name: [row for row in rows if row.split == name] for name in ("train", *held_out_splits[:2])}
    train, evaluated, *_ = parts.values()
    if not train or not evaluated:
        raise ValueError(
            f"{file} has {len(train)} training rows and {len(evaluated)} evaluation rows: add rows, or give each a "
            f"split, train or {HELD_OUT[0]}"
        )
    return parts


def by_image(paths: Sequence[str]) -> dict[str, list[int]]:
    """Returns {image: its numbers in the list}: rows may repeat an image, and write its path in several ways."""
    numbers = {}
    for number, path in enumerate(paths):
        if not is_remote(path):
            path = os.path.abspath(path)
        numbers.setdefault(path, []).append(number)
    return numbers


def _a_fifth_by_rank(rows, codec):
    """Returns the rows that were held out before: those of a fifth of the images, except the last one of a label."""
    groups = {}
    for numbers in by_image([row.path for row in rows]).values():
        image = [rows[number] for number in numbers]
        groups.setdefault(class_of(image[0].label), []).append(image)
    chosen = set()
    for images in groups.values():
        names = {image[0].key: {name for row in image for name in codec.names(row.label)} for image in images}
        left, held = collections.Counter(name for each in names.values() for name in each), 0
        for image in sorted(images, key=_hash_of_path):
            own = names[image[0].key]
            if held < max(1, round(len(images) / 5)) and all(left[name] > 1 for name in own):
                left.subtract(own)
                held += 1
                chosen.update(image)
    return chosen


def _hash_of_path(image):
    path, _, _ = image[0].key.rpartition(":")
    return hashlib.sha256(os.fsencode(path)).digest()


def _class_names(file, train, rows, codec):
    """Returns the sorted names of the classes or labels; each class must have a training image."""
    trained, names = ({name for row in side for name in codec.names(row.label)} for side in (train, rows))
    is_divided = rows[0].split is not None
    # With many labels, the only image of a rare one may be held out by its name. The plan says so.
    if (lacking := sorted(names - trained)) and (is_divided or codec is CODECS["classification"]):
        fault = f"{file} has no training rows for {_first_of(list(map(repr, lacking)), ', ', ' and')}"
        if not is_divided:
            fault += ", as the names of its images hold them out: add rows, or give each a split"
        if all(map(is_number, names)):
            fault += "; for labels that are numbers, choose the task regression"
        raise ValueError(fault)
    if len(names) < codec.least_names:
        raise ValueError(
            f"{file} has {len(names)} classes or labels in its column label; it needs at least {codec.least_names}"
        )
    return tuple(sorted(names))
