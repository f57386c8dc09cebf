"""estimator_train predict: predicts classes, labels or numbers for image files."""

import collections
import glob
import os
from types import SimpleNamespace
from typing import NamedTuple

import click

from estimator_train._engine.host.files import printable, quoted
from estimator_train._engine.host.paths import as_path, is_remote
from estimator_train.app.cli import output_format
from estimator_train.app.cli.parameters import Value
from estimator_train.app.cli.run_options import run_options
from estimator_train.app.datasets.images import SUFFIXES, counted_endings, subdirectories
from estimator_train.app.errors import SettingError
from estimator_train.app.running.messages import warn
from estimator_train.app.running.opened_run import open_run
from estimator_train.app.running.selected_checkpoint import checkpoint_prefix
from estimator_train.app.running.startup import starting_tensorflow
from estimator_train.app.runs.rules import Excludes, check_rules
from estimator_train.app.runs.values import Count, OutputFile

_EXAMPLES = """\b
Examples:
  estimator_train predict --model-dir runs/oct2017 scan.jpeg FOLDER 'scans/*.png'
  estimator_train predict --model-dir runs/oct2017 --csv scans > classes.csv
  estimator_train predict --model-dir runs/oct2017 FOLDER --top 3 --out classes.parquet
"""

_RULES = (
    *output_format.RULES,
    Excludes(("json", "csv"), "the ending of the file {out} chooses its format; leave out {other}", "out"),
)

_NOUNS = {"class": "class", "labels": "label"}  # of one of several, by the kind of a task


@click.command(epilog=_EXAMPLES)
@run_options
@click.option("--top", type=Value(Count()), help="Give the N most probable classes or labels.  [default: all]")
@output_format.format_options("Write comma-separated values with all digits.")
@click.option(
    "--out",
    type=Value(OutputFile()),
    help="Write to a file that ends in .csv, .json or .parquet, instead of printing.",
)
@click.argument("images", nargs=-1, required=True, metavar="FILE|FOLDER|PATTERN...")
def predict(model_dir, checkpoint, trust_run, images, **flags):
    """Predict the classes of images with their probabilities, or their labels or numbers.

    A FOLDER stands for all image files in it and its subfolders. Unreadable files and folders, and images whose
    prediction is not finite, are named on standard error, and the exit code is then 1.
    """
    flags = SimpleNamespace(**flags)
    check_rules(vars(flags), _RULES)
    if flags.out:
        output_format.check_out(flags.out)
    run, settings = open_run(model_dir, trust_run)
    _check_run(model_dir, settings, flags.top)
    checkpoint = checkpoint_prefix(run, checkpoint)
    found = _find(images)

    with starting_tensorflow():
        from estimator_train.app.metrics import tasks
        from estimator_train.app.running import build, label_thresholds, prediction

    (checkpoint,) = build.checkpoint_paths(run, checkpoint)
    task = tasks.named(settings.task, label_thresholds.kept(settings, model_dir, checkpoint))
    predictions, undecodable = prediction.predict(settings, model_dir, checkpoint, found.paths)
    entries = [_entry(task, settings.class_names, flags.top, *each) for each in predictions.items()]
    _write(flags, entries, task.KIND, settings.class_names)
    if found.others:
        warn(f"left out: {printable(counted_endings(found.others))}")
    faults = found.faults + undecodable
    for fault in faults:
        warn(printable(fault))
    return int(bool(faults))


def _check_run(model_dir, settings, top):
    """Rejects a run that cannot predict for image files, or not its `top` classes."""
    if not settings.dataset:
        raise SettingError("{model_dir} {0} was trained with an input_fn, not on a dataset of images", model_dir)
    if top and not settings.class_names:
        raise SettingError("{top} {0} is for classes or labels, and {1} predicts a number", top, model_dir)


class _Found(NamedTuple):
    paths: list[str]  # of image files, without repetitions
    others: collections.Counter[str]  # the other files in folders, by their endings
    faults: list[str]  # a line for each folder that cannot be read, and each argument that is no image file


def _find(arguments):
    """Returns the image files that the arguments stand for, of which there must be one, and what else there is."""
    others, unreadable = collections.Counter(), []
    found = {argument: _image_files(argument, others, unreadable) for argument in arguments}
    present = dict.fromkeys(path for paths in found.values() for path in paths)
    absent = [argument for argument, paths in found.items() if not paths]
    # Opening a pipe that nothing writes to would block forever.
    special = [path for path in present if os.path.exists(path) and not os.path.isfile(path)]
    paths = [path for path in present if path not in special]
    if not paths:
        nothing = f"there is no image file {quoted(absent + special)}"
        raise SettingError("{0}", "; ".join([nothing, *unreadable]))
    faults = [f"{argument}: there is no such image file" for argument in absent]
    faults += [f"{path} is a pipe, socket or device, not an image file" for path in special]
    return _Found(paths, others, unreadable + faults)


def _write(flags, entries, kind, names):
    header = _header(kind, names, flags.top)
    rows = [_row(kind, flags.top, entry) for entry in entries]
    if flags.out:
        output_format.write_file(flags.out, entries, [header, *rows])
        click.echo(f"{len(rows)} predictions are in {printable(flags.out)}")
        return
    output_format.write(flags, entries, [header, *rows], lambda: output_format.as_table(rows, header))


def _entry(task, names, top, path, values):
    """Returns an image's prediction for JSON, with its path as it is; the `top` probabilities, if given, in order."""
    answer = task.prediction(names, values)
    if task.KIND == "labels":
        answer = [label for label in answer.split("|") if label]
    entry = {"file": path, task.KIND: answer}
    if not names:
        return entry
    chosen = range(len(names))
    if top:
        chosen = (-values).argsort(kind="stable")[:top]
    return entry | {"probabilities": {names[index]: float(values[index]) for index in chosen}}


def _header(kind, names, top):
    """Returns the names of the columns: with `top`, pairs of a class or label and its probability."""
    if not top:
        return ["file", kind, *names]
    noun = _NOUNS[kind]
    places = range(1, min(top, len(names)) + 1)
    pairs = [column for place in places for column in (f"{noun}_{place}", f"probability_{place}")]
    if kind == "class":
        return ["file", "class", "probability", *pairs[2:]]
    return ["file", kind, *pairs]


def _row(kind, top, entry):
    """Returns an image's prediction in these columns; the first of the top classes is the predicted one."""
    path, answer, probabilities = printable(entry["file"]), entry[kind], entry.get("probabilities", {})
    if kind == "labels":
        answer = "|".join(answer)
    if not top:
        return [path, answer, *probabilities.values()]
    pairs = [each for pair in probabilities.items() for each in pair]
    if kind == "class":
        return [path, *pairs]
    return [path, answer, *pairs]


def _image_files(argument, others, unreadable):
    """Returns the image paths that an argument stands for. Names may contain wildcards, and directories brackets."""
    found = (_images_at(as_path(place), others, unreadable) for place in _places(argument))
    return [path for paths in found for path in paths]


def _places(argument):
    """Returns the files and folders of that name, or those that match it as a pattern."""
    if os.path.exists(argument) or (is_remote(argument) and as_path(argument).exists()):
        return [argument]
    return _matching(argument) or _matching(argument.replace("[", "[[]"))


def _matching(pattern):
    if is_remote(pattern):
        return sorted(map(str, as_path(os.path.dirname(pattern)).glob(os.path.basename(pattern))))
    return sorted(glob.glob(pattern, recursive=True))


def _images_at(folder, others, unreadable, above=()):
    """Returns a file, or the image files in a directory and its subdirectories, and counts others by ending.

    Hidden ones are neither. A link to one of the directories `above`, given by their real paths, is not followed. A
    line about each directory that cannot be read is added to `unreadable`.
    """
    real = str(folder)
    if not folder.is_dir():
        return [real]
    if not is_remote(folder):
        real = os.path.realpath(folder)
    if real in above:
        return []
    try:
        files = [str(path) for path in folder.iterdir() if not path.is_dir() and not path.name.startswith(".")]
        subfolders = subdirectories(folder)
    except OSError as error:
        unreadable.append(f"{folder} cannot be read: {error.strerror or error}")
        return []
    here = sorted(path for path in files if path.lower().endswith(SUFFIXES))
    others.update(os.path.splitext(path)[1].lower() for path in files if not path.lower().endswith(SUFFIXES))
    below = (_images_at(subfolder, others, unreadable, (*above, real)) for subfolder in subfolders)
    return here + [path for paths in below for path in paths]
