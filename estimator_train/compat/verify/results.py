"""Collects the results of a script: what it leaves in its directory, and what it prints."""

import glob
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from estimator_train._engine.checkpoints.slots import variable_names
from estimator_train._engine.events import read_eval_metrics
from estimator_train.compat.verify import printed
from estimator_train.compat.verify.exports import predictions
from estimator_train.compat.verify.runs import Run

_STATE = {"signal_early_stopping/STOP"}  # of a hook of tf.estimator, which keeps it elsewhere here
_OF_TIME = re.compile(r"(?:/|_per_)sec(?:ond)?$|fraction\w*_full$")  # speeds, and how full queues were
_LOGGED_EVALUATION = re.compile(r"Saving dict for global step .*")

_Results: TypeAlias = Iterator[tuple["Name", Any]]


class Name(NamedTuple):
    """The name of a result: its kind, the place below the script's directory, its own name there, and its step."""

    kind: str
    place: str
    name: str
    step: int | None = None

    @property
    def directory(self) -> str:
        """The directory of a checkpoint or of event files."""
        return self.place.removesuffix("/model.ckpt")

    def __str__(self) -> str:
        return f"{self.kind} {self.place}: {self.name}"


def results_of(run: Run) -> tuple[dict[Name, Any], Counter[str]]:
    """Returns the results by name, in the order of their steps, and how many of which kind cannot be compared."""
    left_out: Counter[str] = Counter()
    found = [
        *variables(run.directory, left_out),
        *_events(run, left_out),
        *_exports(run, left_out),
        *_printed(run, left_out),
    ]
    found.append((Name("exit", "code", "of the script"), run.code))
    found.sort(key=lambda item: math.inf if item[0].step is None else item[0].step)
    return dict(found), left_out


def variables(directory: Path, left_out: Counter[str]) -> _Results:
    """Yields the variables in checkpoints, by their names in graphs where a checkpoint of objects has these, too."""
    for index in sorted(directory.rglob("*.index")):
        if (index.parent.parent / "saved_model.pb").exists():
            continue  # of an export, whose predictions are compared
        prefix = str(index.with_suffix(""))
        if prefix.endswith("/keras/keras_model.ckpt"):
            continue  # of tf.estimator, for the initial values of a Keras model
        place, step = _place_and_step(os.path.relpath(prefix, directory))
        try:
            reader = tf.train.load_checkpoint(prefix)
        except tf.errors.OpError as error:  # of another program's file, too
            left_out[f"{os.path.relpath(index, directory)}: {error.message}"] += 1
            continue
        names = variable_names(reader)
        for key, dtype in sorted(reader.get_variable_to_dtype_map().items()):
            if dtype != tf.string and key not in _STATE:
                yield Name("checkpoint", place, names.get(key, key), step), reader.get_tensor(key)


def _place_and_step(prefix: str) -> tuple[str, int | None]:
    place, _, step = prefix.rpartition("-")
    if place and step.isdecimal():
        return place, int(step)
    return prefix, None


def _events(run: Run, left_out: Counter[str]) -> _Results:
    for folder in sorted({path.parent for path in run.directory.rglob("*.tfevents.*")}):
        for step, scalars in read_eval_metrics(f"{glob.escape(str(folder))}/*.tfevents.*").items():
            for tag, value in scalars.items():
                if _OF_TIME.search(tag):
                    left_out[f"{tag} in event files"] += 1
                else:
                    yield Name("event", str(folder.relative_to(run.directory)), tag, step), value


def _exports(run: Run, left_out: Counter[str]) -> _Results:
    """Yields the predictions of exports; those whose folder is a time are numbered."""
    numbers: Counter[str] = Counter()
    for path in sorted(run.directory.rglob("saved_model.pb")):
        place = path.parent.relative_to(run.directory)
        if place.name.isdecimal():
            numbers[str(place.parent)] += 1
            place = place.with_name(str(numbers[str(place.parent)]))
        outputs, failures = predictions(path.parent)
        yield from ((Name("export", str(place), output), value) for output, value in outputs.items())
        left_out.update(f"export {place}: {failure}" for failure in failures)


def _printed(run: Run, left_out: Counter[str]) -> _Results:
    """Yields the numbers in each line that is printed, and in the logged results of evaluations.

    A line's name is its text, and its place tells it from earlier ones that are the same but for their numbers.
    """
    texts: Counter[str] = Counter()
    logged = dict.fromkeys(_LOGGED_EVALUATION.findall(run.errors))  # once, though TensorFlow 1 may log it twice
    for text, numbers in printed.read([*run.output.splitlines(), *logged], str(run.directory), left_out):
        texts[text] += 1
        yield Name("printed", str(texts[text]), text), numbers
