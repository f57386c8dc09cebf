"""estimator_train predict: predicts classes, labels or numbers for image files."""

from __future__ import annotations

import csv
import glob
import json
import os
import sys

import click
import tabulate

from estimator_train._engine.host.files import printable
from estimator_train._engine.host.paths import as_path, is_remote
from estimator_train.app.cli.checkpoint_flag import checkpoint_option, checkpoint_prefix, model_dir_option
from estimator_train.app.cli.settings import Settings
from estimator_train.app.cli.startup import starting_tensorflow
from estimator_train.app.cli.trust import trust_option
from estimator_train.app.datasets.images import subdirectories

_EXAMPLES = """\b
Examples:
  estimator_train predict --model-dir runs/oct2017 scan.jpeg FOLDER 'scans/*.png'
  estimator_train predict --model-dir runs/oct2017 --csv scans > classes.csv
"""


@click.command(epilog=_EXAMPLES)
@model_dir_option
@checkpoint_option
@trust_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON with all digits.")
@click.option("--csv", "as_csv", is_flag=True, help="Write comma-separated values with all digits.")
@click.argument("images", nargs=-1, required=True, metavar="FILE|FOLDER|PATTERN...")
def predict(model_dir, checkpoint, trust_run, as_json, as_csv, images):
    """Predict the classes of images with their probabilities, or their labels or numbers.

    A FOLDER stands for all JPEG and PNG files in it and its subfolders. Unreadable files are named on standard error,
    and the exit code is then 1.
    """
    if as_json and as_csv:
        raise click.ClickException("--json and --csv exclude each other; give one")
    settings = Settings.of_run(model_dir, trust_run)
    if not settings.dataset:
        raise click.ClickException(f"--model-dir {model_dir} was trained with an input_fn, not on a dataset of images")
    checkpoint = checkpoint_prefix(model_dir, checkpoint)
    found = {argument: _image_files(argument) for argument in images}
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

    if checkpoint is None:
        (checkpoint,) = build.checkpoint_paths(model_dir, every=False)
    predictions = prediction.predict(settings, model_dir, checkpoint, paths)
    names = settings.class_names
    predicted = [
        (path, tasks.named(settings.task).prediction(names, values), dict(zip(names, values.tolist(), strict=False)))
        for path, values in predictions.items()
    ]
    write = _write_json if as_json else _write_csv if as_csv else _write_table
    write(tasks.named(settings.task).KIND, names, predicted)
    undecodable = [path for path in paths if path not in predictions]
    for argument in absent:
        click.echo(f"estimator_train: {printable(argument)}: there is no such image file", err=True)
    for path in special:
        click.echo(f"estimator_train: {printable(path)} is a pipe, socket or device, not an image file", err=True)
    for path in undecodable:
        click.echo(f"estimator_train: {printable(path)} cannot be decoded: {prediction.fault(path)}", err=True)
    return 1 if absent or special or undecodable else 0


def _image_files(argument):
    """Returns the image paths that an argument stands for. Names may contain wildcards, and directories brackets."""
    there = as_path(argument).exists() if is_remote(argument) else os.path.exists(argument)
    found = [argument] if there else _matching(argument) or _matching(argument.replace("[", "[[]"))
    places = map(as_path, found)
    return [path for place in places for path in (_files_below(place) if place.is_dir() else [str(place)])]


def _matching(pattern):
    if is_remote(pattern):
        return sorted(map(str, as_path(os.path.dirname(pattern)).glob(os.path.basename(pattern))))
    return sorted(glob.glob(pattern, recursive=True))


def _files_below(folder):
    """Returns the paths of the JPEG and PNG files in a directory and its subdirectories, except hidden ones."""
    files = [str(path) for path in folder.iterdir() if not path.is_dir() and not path.name.startswith(".")]
    here = sorted(path for path in files if path.lower().endswith((".jpg", ".jpeg", ".png")))
    return here + [path for subfolder in subdirectories(folder) for path in _files_below(subfolder)]


def _write_table(kind, names, predicted):
    header, *rows = _rows(kind, names, predicted)
    click.echo(tabulate.tabulate(rows, headers=header, floatfmt=".4f"))


def _write_csv(kind, names, predicted):
    csv.writer(sys.stdout, lineterminator="\n").writerows(_rows(kind, names, predicted))


def _rows(kind, names, predicted):
    """Yields the column names, then a row per image."""
    yield ["file", kind, *names]
    for path, answer, probabilities in predicted:
        yield [printable(path), answer, *probabilities.values()]


def _write_json(kind, names, predicted):
    entries = []
    for path, answer, probabilities in predicted:
        if kind == "labels":
            answer = answer.split("|") if answer else []
        entries.append({"file": path, kind: answer} | ({"probabilities": probabilities} if names else {}))
    click.echo(json.dumps(entries, indent=2))
