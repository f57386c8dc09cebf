"""estimator_train report: what a run has come to, as a page to read."""

from __future__ import annotations

import click

from estimator_train.cli import completion
from estimator_train.cli.commands.evaluate import data_of_run
from estimator_train.cli.parameters import Text
from estimator_train.cli.settings import Settings
from estimator_train.cli.startup import starting_tensorflow

_EXAMPLES = """\b
Example:
  estimator_train report --model-dir runs/oct2017
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--model-dir",
    type=Text(),
    metavar="FOLDER",
    required=True,
    shell_complete=completion.folders,
    help="Folder of a run.",
)
def report(model_dir):
    """Write a report of a run, one HTML file with curves, numbers and the worst mistakes.

    The newest checkpoint is evaluated for it. The file, report/report.html in the folder of the run, needs nothing
    else to be read; the plots are beside it as PNG files. Training writes the same report at its end.
    """
    settings = Settings.of_run(model_dir)
    data = data_of_run(settings, model_dir) if settings.dataset else None

    with starting_tensorflow():
        from estimator_train.cli.run import build, evaluation, reporting

    (checkpoint,) = build.checkpoint_paths(model_dir, every=False)
    (result,) = evaluation.evaluate(settings, data, model_dir, [checkpoint])
    reporter = reporting.Reporter(settings, data, model_dir)
    reporter.add(checkpoint, result)
    click.echo(f"the report is {reporter.write()}")
