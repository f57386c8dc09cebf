"""estimator_train compare: shows how runs differ, as a table and as an HTML page."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from estimator_train._engine.host.files import printable, quoted
from estimator_train.app.cli.parameters import Value
from estimator_train.app.errors import one_line_errors
from estimator_train.app.running.messages import warn
from estimator_train.app.running.planning import must_be_fetched
from estimator_train.app.running.run import Run
from estimator_train.app.running.startup import starting_tensorflow
from estimator_train.app.runs.spec import Settings
from estimator_train.app.runs.values import Directory, OutputFile

if TYPE_CHECKING:
    from estimator_train.app.report.comparison import ComparedRun

_EXAMPLES = """\b
Examples:
  estimator_train compare runs/oct2017 runs/again
  estimator_train compare runs/* --out comparison.html
"""

_OF_FILES = ("synthetic_oct", "oct2017", "images", "manifest")  # datasets of image files, which opening only lists


@click.command(epilog=_EXAMPLES)
@click.argument("model_dirs", type=Value(Directory()), nargs=-1, required=True, metavar="RUN RUN...")
@click.option(
    "--out", type=Value(OutputFile()), default="comparison.html", show_default=True, help="HTML file to write."
)
def compare(model_dirs: tuple[str, ...], out: str) -> None:
    """Compare runs with the first one.

    The first lines say which run is better, which McNemar's test of the images that changed sides decides at 0.05. The
    tables show the metrics of their last evaluations, the F1 of each class and, for two runs, the differences, and the
    settings that differ; then come how many images changed sides, and the interval of the difference in accuracy. The
    page adds the curves, all metrics of each class and those images.
    """
    folders = list({os.path.realpath(folder): folder for folder in model_dirs}.values())
    if len(folders) < 2:
        raise click.ClickException(f"compare takes two runs or more; give another folder besides {folders[0]}")
    runs = [Run(folder) for folder in folders]
    settings = [run.spec.settings for run in runs]
    _check_classes(folders, settings)

    with starting_tensorflow():
        from estimator_train.app.report import compared_runs, comparison, comparison_page
        from estimator_train.app.running.example_images import images_of

    with one_line_errors():
        compared = [compared_runs.read_run(run) for run in runs]
        read_image = None
        if settings[0].dataset in _OF_FILES and not must_be_fetched(settings[0].dataset, settings[0].data_dir):
            read_image = images_of(settings[0])
        comparison_page.write_comparison(out, compared, read_image)
    click.echo("\n".join(map(printable, comparison.table(compared).splitlines())))
    for run in compared:
        if obstacle := _without_images(run, compared[0]):
            warn(obstacle)
    click.echo(f"\nthe comparison is {out}")


def _check_classes(folders: Sequence[str], settings: Sequence[Settings]) -> None:
    for folder, each in zip(folders, settings, strict=True):
        if set(each.class_names) != set(settings[0].class_names):
            raise click.ClickException(
                f"{folder} knows {_classes(each)} and {folders[0]} {_classes(settings[0])}; compare runs of the "
                "same classes"
            )


def _classes(settings: Settings) -> str:
    if not settings.class_names:
        return "no classes"
    return f"the classes {quoted(settings.class_names)}"


def _without_images(run: ComparedRun, first: ComparedRun) -> str | None:
    """Says why the images of a run cannot be compared with those of the first one, and the remedy; else None."""
    from estimator_train.app.report import comparison
    from estimator_train.app.runs import predictions_file

    if run.classes and run.predictions is None:
        again = shlex.join(["estimator_train", "evaluate", "--model-dir", run.name])
        missing = f"{run.name} has no {predictions_file.NAME}, so its images are not compared"
        return f"{missing}; to write it, run: {again}"
    if run.predictions and not comparison.can_be_paired(first, run):
        numbered = f"{run.name} and {first.name} number the examples of different data"
        remedy = "train on the same --dataset, --data-dir, --limit and --seed to compare them"
        return f"{numbered}, so their images are not compared; {remedy}"
    return None
