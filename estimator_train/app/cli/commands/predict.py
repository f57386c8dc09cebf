"""estimator_train predict: predicts classes, labels or numbers for image files."""

from __future__ import annotations

import collections
import glob
import os
from types import SimpleNamespace

import click

from estimator_train._engine.host.files import printable
from estimator_train._engine.host.paths import as_path, is_remote
from estimator_train.app.cli import output_format
from estimator_train.app.cli.conflicts import check_conflicts
from estimator_train.app.cli.run_file import settings_of_run
from estimator_train.app.cli.run_options import checkpoint_prefix, run_options
from estimator_train.app.cli.startup import starting_tensorflow
from estimator_train.app.datasets.images import SUFFIXES, counted_endings, subdirectories

_EXAMPLES = """\b
Examples:
  estimator_train predict --model-dir runs/oct2017 scan.jpeg FOLDER 'scans/*.png'
  estimator_train predict --model-dir runs/oct2017 --csv scans > classes.csv
"""


@click.command(epilog=_EXAMPLES)
@run_options
@output_format.format_options("Write comma-separated values with all digits.")
@click.argument("images", nargs=-1, required=True, metavar="FILE|FOLDER|PATTERN...")
def predict(model_dir, checkpoint, trust_run, images, **flags):
    """Predict the classes of images with their probabilities, or their labels or numbers.

    A FOLDER stands for all image files in it and its subfolders. Unreadable files are named on standard error,
    and the exit code is then 1.
    """
    flags = SimpleNamespace(**flags)
    check_conflicts(flags, output_format.RULES)
    settings = settings_of_run(model_dir, trust_run)
    if not settings.dataset:
        raise click.ClickException(f"--model-dir {model_dir} was trained with an input_fn, not on a dataset of images")
    checkpoint = checkpoint_prefix(model_dir, checkpoint)
    others = collections.Counter()
    found = {argument: _image_files(argument, others) for argument in images}
    present = list(dict.fromkeys(path for paths in found.values() for path in paths))
    absent = [argument for argument, paths in found.items() if not paths]
    # Opening a pipe that nothing writes to would block forever.
    special = [path for path in present if os.path.exists(path) and not os.path.isfile(path)]
    paths = [path for path in present if path not in special]
    if not paths:
        raise click.ClickException(f"there is no image file {', '.join(map(printable, absent + special))}")

    with starting_tensorflow():
        from estimator_train.app.cli.run import build, prediction
        from estimator_train.app.report import tasks

    (checkpoint,) = build.checkpoint_paths(model_dir, checkpoint)
    predictions = prediction.predict(settings, model_dir, checkpoint, paths)
    names, task = settings.class_names, tasks.named(settings.task)
    rows = [
        [printable(path), task.prediction(names, values), *(values.tolist() if names else ())]
        for path, values in predictions.items()
    ]
    header = ["file", task.KIND, *names]
    output_format.write(
        flags,
        entries=lambda: [_entry(task.KIND, names, *each) for each in zip(predictions, rows, strict=True)],
        rows=lambda: [header, *rows],
        text=lambda: output_format.as_table(rows, header),
    )
    undecodable = [path for path in paths if path not in predictions]
    if others:
        click.echo(f"estimator_train: left out are {printable(counted_endings(others))}", err=True)
    for argument in absent:
        click.echo(f"estimator_train: {printable(argument)}: there is no such image file", err=True)
    for path in special:
        click.echo(f"estimator_train: {printable(path)} is a pipe, socket or device, not an image file", err=True)
    for path in undecodable:
        click.echo(f"estimator_train: {printable(path)} cannot be decoded: {prediction.fault(path)}", err=True)
    return 1 if absent or special or undecodable else 0


def _entry(kind, names, path, row):
    """Returns an image's prediction for JSON, with its path as it is."""
    _, answer, *probabilities = row
    if kind == "labels":
        answer = answer.split("|") if answer else []
    entry = {"file": path, kind: answer}
    return entry | {"probabilities": dict(zip(names, probabilities, strict=True))} if names else entry


def _image_files(argument, others):
    """Returns the image paths that an argument stands for. Names may contain wildcards, and directories brackets."""
    there = as_path(argument).exists() if is_remote(argument) else os.path.exists(argument)
    found = [argument] if there else _matching(argument) or _matching(argument.replace("[", "[[]"))
    places = map(as_path, found)
    return [path for place in places for path in (_files_below(place, others) if place.is_dir() else [str(place)])]


def _matching(pattern):
    if is_remote(pattern):
        return sorted(map(str, as_path(os.path.dirname(pattern)).glob(os.path.basename(pattern))))
    return sorted(glob.glob(pattern, recursive=True))


def _files_below(folder, others):
    """Returns the paths of the image files in a directory and its subdirectories, and counts others by ending.

    Hidden ones are neither.
    """
    files = [str(path) for path in folder.iterdir() if not path.is_dir() and not path.name.startswith(".")]
    here = sorted(path for path in files if path.lower().endswith(SUFFIXES))
    others.update(os.path.splitext(path)[1].lower() for path in files if not path.lower().endswith(SUFFIXES))
    return here + [path for subfolder in subdirectories(folder) for path in _files_below(subfolder, others)]
