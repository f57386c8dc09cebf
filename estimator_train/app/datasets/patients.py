"""Groups OCT images by patient, using their file names <CLASS>-<patient>-<number>.jpeg."""

import collections
import hashlib
import os
import re
from collections.abc import Iterable

from estimator_train.app.datasets.dataset import Dataset


def patient_of(path: str) -> str:
    """Returns the patient's number as a string, or the whole file name if it has none.

        >>> patient_of("train/CNV/CNV-732516-3.jpeg")
        '732516'

    A patient may have images in several classes: 732516 of OCT2017 has CNV and drusen.
    """
    name = os.path.basename(path)
    match = re.fullmatch(r"[^-]+-(\d+)-\d+\.\w+", name)
    return match.group(1) if match else name


def shared_patients(paths: Iterable[str], other_paths: Iterable[str]) -> set[str]:
    """Returns the patients with images in both lists.

    >>> shared_patients(["CNV-732516-3.jpeg", "DME-15307-1.jpeg"], ["DRUSEN-732516-1.jpeg"])
    {'732516'}
    """
    return {patient_of(path) for path in paths} & {patient_of(path) for path in other_paths}


def with_patients_for_validation(data: Dataset, share: float) -> Dataset:
    """Holds out patients with about a `share` of each class for validation; raises ValueError if one has too few.

    >>> data = split_by_patient(datasets.open_dataset("synthetic_oct", "scans", draw=False))
    >>> with_patients_for_validation(data, 0.1).validation_examples
    64
    """
    chosen = _held_out(data, share)
    rows = [row for row, path in enumerate(data.train.paths) if patient_of(path) in chosen]
    split = data.holding_out(rows)
    by_side = split.class_counts() or {}
    for class_name in data.class_names:
        if not all(counts[class_name] for counts in by_side.values()):
            raise ValueError(f"class {class_name!r} has too few patients to split: at least two are needed")
    return split


def split_by_patient(data: Dataset) -> Dataset:
    """Returns a dataset that holds out some patients of the training images of `data` for evaluation.

    They have about a fifth of the images of each class; see `with_patients_for_validation`. They are chosen by hashes,
    so every call makes the same split.

        >>> data = split_by_patient(datasets.open_dataset("synthetic_oct", "scans", draw=False))
        >>> data.train_examples, data.eval_examples
        (640, 160)
    """
    return with_patients_for_validation(data, 1 / 5).to_choose_on()


def _held_out(data, share):
    """Returns the patients that have about a `share` of the training images of each class."""
    chosen: set[str] = set()
    by_class: dict[int, list[str]] = {index: [] for index in range(len(data.class_names))}
    for path, label in zip(data.train.paths, data.train.labels, strict=True):
        by_class[label].append(path)
    for paths in by_class.values():
        images = collections.Counter(patient_of(path) for path in paths)
        number = sum(images[patient] for patient in chosen)
        for patient in sorted(images.keys() - chosen, key=lambda name: hashlib.sha256(os.fsencode(name)).digest()):
            if number >= len(paths) * share:
                break
            chosen.add(patient)
            number += images[patient]
    return chosen
