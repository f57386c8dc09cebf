"""estimator_train predict: predicts classes, labels or numbers for image files."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import click

from estimator_train._engine.host.files import printable
from estimator_train.app.cli import output_format
from estimator_train.app.cli.parameters import Value
from estimator_train.app.cli.run_options import run_options
from estimator_train.app.datasets.images import counted_endings
from estimator_train.app.running.messages import warn
from estimator_train.app.running.run import Run
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
def predict(model_dir: str, checkpoint: str | None, trust_run: bool, images: tuple[str, ...], **given: Any) -> int:
    """Predict the classes of images with their probabilities, or their labels or numbers.

    A FOLDER stands for all image files in it and its subfolders. Unreadable files and folders, and images whose
    prediction is not finite, are named on standard error, and the exit code is then 1.
    """
    flags = SimpleNamespace(**given)
    check_rules(vars(flags), _RULES)
    if flags.out:
        output_format.check_out(flags.out)
    run = Run(model_dir, trust_run=trust_run)
    entries, others, faults = run.predicted(images, checkpoint, flags.top)

    from estimator_train.app.metrics import tasks

    _write(flags, entries, tasks.named(run.spec.settings.task).KIND, run.spec.settings.class_names)
    if left_out := counted_endings(others):
        warn(f"left out: {printable(left_out)}")
    for fault in faults:
        warn(printable(fault))
    return int(bool(faults))


def _write(flags: SimpleNamespace, entries: Sequence[Mapping[str, Any]], kind: str, names: Sequence[str]) -> None:
    header = _header(kind, names, flags.top)
    rows = [_row(kind, flags.top, entry) for entry in entries]
    if flags.out:
        output_format.write_file(flags.out, entries, [header, *rows])
        click.echo(f"{len(rows)} predictions are in {printable(flags.out)}")
        return
    output_format.write(flags, entries, [header, *rows], lambda: output_format.as_table(rows, header))


def _header(kind: str, names: Sequence[str], top: int | None) -> list[str]:
    """Returns the names of the columns: with `top`, pairs of a class or label and its probability."""
    if not top:
        return ["file", kind, *names]
    noun = _NOUNS[kind]
    places = range(1, min(top, len(names)) + 1)
    pairs = [column for place in places for column in (f"{noun}_{place}", f"probability_{place}")]
    if kind == "class":
        return ["file", "class", "probability", *pairs[2:]]
    return ["file", kind, *pairs]


def _row(kind: str, top: int | None, entry: Mapping[str, Any]) -> list[Any]:
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
