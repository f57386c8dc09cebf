"""Class weights, computed from a dataset's class counts or read from a file."""

import csv
import io
import json
import math
from pathlib import Path

from estimator_train._engine.host.files import quoted
from estimator_train._engine.host.paths import StrPath
from estimator_train.app.datasets.dataset import Dataset, differences


def class_weights(data: Dataset, weights: StrPath = "balanced") -> tuple[float, ...]:
    """Returns a weight for each class of `data`, in the order of its `class_names`, for `input_fns.class_weighted`.

        >>> class_weights(datasets.open_dataset("synthetic_oct", "scans", draw=False))
        (1.0, 1.0, 1.0, 1.0)

    "balanced" is n / (k * n_c), where n is the number of training examples, k the number of classes and n_c the
    examples of the class, so that all classes count the same (King and Zeng, 2001). Other `weights` are a JSON file
    with an object of names to weights, or a CSV file with lines such as DRUSEN,2.5.

    Raises:
      ValueError: the dataset does not know its counts, a class has no training examples, the file is malformed or has
        other classes, or a weight is negative or not finite.
      OSError: the file cannot be read.
    """
    if weights == "balanced":
        return _balanced(data)
    path = Path(weights)
    if not path.exists():
        raise FileNotFoundError(f"class weights {path}: there is no such file; give balanced, or a JSON or CSV file")
    try:
        text = path.read_text(encoding="utf-8-sig")  # Excel writes a byte order mark
    except UnicodeDecodeError as error:
        raise ValueError(f"class weights {path} is not UTF-8 text: {error}") from error
    read = {".json": _read_json}.get(path.suffix.lower(), _read_csv)
    given = read(path, text)
    if faults := differences(given, data.class_names, "there is no class"):
        raise ValueError(
            f"class weights {path} must have the classes {quoted(data.class_names)}: {' and '.join(faults)}"
        )
    for name, weight in given.items():
        if not 0 <= weight < math.inf:
            raise ValueError(f"class weights {path}: the weight of {name!r} must not be negative, got {weight}")
    return tuple(given[name] for name in data.class_names)


def _balanced(data):
    counts = data.class_counts()
    if counts is None:
        raise ValueError(
            f"{data.name} does not know how many examples its classes have; give a file of class weights, not balanced"
        )
    training_counts = [counts["train"][name] for name in data.class_names]
    if not all(training_counts):
        empty = data.class_names[training_counts.index(0)]
        raise ValueError(
            f"class {empty!r} has no training examples, so it has no balanced weight; give a file of weights"
        )
    return tuple(sum(training_counts) / len(training_counts) / count for count in training_counts)


def _read_json(path, text):
    try:
        weights = json.loads(text)
        if not isinstance(weights, dict):
            raise ValueError("it is not an object")
        return {name: float(weight) for name, weight in weights.items()}
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f'class weights {path} must be a JSON object such as {{"DRUSEN": 2.5}}: {error}') from error


def _read_csv(path, text):
    weights = {}
    for number, row in enumerate(csv.reader(io.StringIO(text, newline="")), 1):
        try:
            name, weight = row
            weights[name.strip()] = float(weight)
        except ValueError as error:
            raise ValueError(
                f"class weights {path} line {number}: got {','.join(row)}, not a class and a weight such as "
                "DRUSEN,2.5; a file has no header"
            ) from error
        if len(weights) < number:
            raise ValueError(f"class weights {path} line {number}: {row[0].strip()!r} has a weight already; leave one")
    return weights
