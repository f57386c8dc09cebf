"""estimator_train report: writes the HTML report of a run."""

import click

from estimator_train.app.cli.run_options import run_options
from estimator_train.app.running.run import Run

_EXAMPLES = """\b
Example:
  estimator_train report --model-dir runs/oct2017
"""


@click.command(epilog=_EXAMPLES)
@run_options
def report(model_dir: str, checkpoint: str | None, trust_run: bool) -> None:
    """Write a report of a run: one HTML file with curves, metrics and the worst mistakes.

    This evaluates the checkpoint. The file, report/report.html in the directory of the run, is self-contained; the
    plots are next to it as PNG files. Training writes the same report when it ends.
    """
    path = Run(model_dir, trust_run=trust_run).report(checkpoint)
    click.echo(f"the report is {path}")
