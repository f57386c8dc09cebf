"""Says which images of a run have changed since it was trained, and which of those evaluated it was trained on."""

import contextlib
import os
from typing import Any

import click

from estimator_train.app.cli.messages import warn
from estimator_train.app.cli.settings import Settings
from estimator_train.app.datasets.held_out import BY_RANK
from estimator_train.app.datasets.same_files import same_files
from estimator_train.app.runs import StoredRun, sides_file

_USES = {"train": "to train on", "validation": "to choose on", "eval": "to evaluate on"}


def say_changes(run: StoredRun, settings: Settings, data: Any) -> None:
    """Warns if the images of a run are others than those that it was trained and evaluated with."""
    before, now = sides_file.read(run.model_dir), sides_file.sides_of(data)
    listed = before is not None and now is not None
    if facts := _by_names(before, now) if listed else _by_numbers(run, settings, data):
        warn(f"the images of {run.model_dir} have changed since it was trained: {'; '.join(facts)}")


def _by_names(before, now):
    """Returns what is to be said of a run whose sides.csv lists its images."""
    found = sides_file.changes(before, now)
    if found is None:
        return []
    numbers = {"new": found.new, "gone": found.gone, "on another side": found.moved}
    facts = [", ".join(f"{_are(number)} {what}" for what, number in numbers.items() if number)]
    for side, number in found.trained_on.items():
        facts.append(f"{number} of the {len(now[side])} {_USES[side]} had been trained on, so the numbers are too good")
    if found.renamed:
        facts.append(f"{found.renamed} to choose or evaluate on may be images under new names that had been trained on")
    return list(filter(None, facts))


def _by_numbers(run, settings, data):
    """Returns what can be said of a run of before, or of data without files: their images are listed nowhere."""
    if data is None or not run.data:
        return []
    now = {side: part.count for side, part in data.parts.items()}
    before = {side: run.data.get(side, 0) for side in _USES}
    facts = [
        f"{now.get(side, 0)} {use} instead of {before[side]}"
        for side, use in _USES.items()
        if now.get(side, 0) != before[side]
    ]
    if settings.held_out_by == BY_RANK:
        from estimator_train.app.runs import predictions_file  # NumPy comes with it

        judged = run.predictions or {}
        others = set(predictions_file.image_names(data)) - judged.keys()
        if judged and others:
            facts.append(f"{len(others)} {_USES['eval']} were not evaluated then")
        if facts:
            facts.append("which images it has trained on is not known, and some of these may be evaluated now")
    return facts


def say_shared(data: Any) -> None:
    """Warns if two sides of a dataset have the same files, as copies in several folders are."""
    parts = data.parts
    for side, other in (("validation", "train"), ("eval", "train"), ("validation", "eval")):
        if side not in parts or other not in parts:
            continue
        if number := same_files(parts[side].paths, parts[other].paths):
            warn(
                f"{data.name}: {number} of the {parts[side].count} images {_USES[side]} are the same files as images "
                f"{_USES[other]}, so the numbers are too good"
            )


def say_trained_on(run: StoredRun, settings: Settings, data: Any) -> None:
    """Warns if images given to evaluate a run on are files that it was trained on."""
    own = None
    if data.eval.paths and settings.data_dir:
        with contextlib.suppress(click.ClickException):  # the run's own data may be gone
            own = settings.open_data(draw=False)
    if own is None or not own.train.paths:
        return
    names, trained = sides_file.named(own.train.own_names()), sides_file.read(run.model_dir)
    if trained is not None:
        names &= sides_file.trained_on(trained)
    named = zip(_real(own.train.paths), own.train.own_names(), strict=True)
    files = {path for path, name in named if sides_file.named([name]) <= names}
    if number := sum(path in files for path in _real(data.eval.paths)):
        warn(
            f"{number} of the {data.eval_examples} images to evaluate on had been trained on, so the numbers are too "
            "good"
        )


def _real(paths):
    """Yields paths without links in their directories."""
    directories = {}
    for path in paths:
        directory, name = os.path.split(path)
        if directory not in directories:
            directories[directory] = os.path.realpath(directory)
        yield os.path.join(directories[directory], name)


def _are(number):
    return f"{number} {'is' if number == 1 else 'are'}"
