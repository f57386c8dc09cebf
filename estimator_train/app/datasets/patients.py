"""Groups OCT images by patient, using their file names <CLASS>-<patient>-<number>.jpeg."""

import collections
import hashlib
import os
import re
from collections.abc import Iterable

from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.datasets.held_out import EVALUATION, VALIDATION, holds_out_by_rank, is_held_out
from estimator_train.app.datasets.part import check_sides


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
    """Holds out a `share` of the patients for validation; raises ValueError if none are, or all of a class.

    >>> data = split_by_patient(datasets.open_dataset("synthetic_oct", "scans", draw=False))
    >>> with_patients_for_validation(data, 0.1).validation_examples
    68
    """
    return _with_patients_held_out(data, share, VALIDATION)


def split_by_patient(data: Dataset) -> Dataset:
    """Returns a dataset that holds out a fifth of the patients in the training images of `data` for evaluation.

    The number of a patient decides, whoever else is there, so every call makes the same split; see `held_out`. Raises
    ValueError as `with_patients_for_validation`.

        >>> data = split_by_patient(datasets.open_dataset("synthetic_oct", "scans", draw=False))
        >>> data.train_examples, data.eval_examples
        (632, 168)
    """
    return _with_patients_held_out(data, 1 / 5, EVALUATION).to_choose_on()


def _with_patients_held_out(data, share, purpose):
    """Returns the dataset with the images of some patients as validation examples."""
    patients = [patient_of(path) for path in data.train.paths]
    if holds_out_by_rank():
        chosen = _held_out_by_rank(data, share)
    else:
        chosen = {patient for patient in patients if is_held_out(patient, share, purpose)}
    split = data.holding_out(row for row, patient in enumerate(patients) if patient in chosen)
    check_sides(data.train, split.train, split.validation, purpose, by="patient")
    return split


def _held_out_by_rank(data, share):
    """Returns the patients who were held out before: they have about a `share` of the training images of each class."""
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
