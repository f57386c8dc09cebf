"""estimator_train report: writes the HTML report of a run."""

import click

from estimator_train.app.cli.run_options import run_options
from estimator_train.app.running.changed_images import say_changes
from estimator_train.app.running.directories import check_directory
from estimator_train.app.running.errors import run_errors
from estimator_train.app.running.opened_run import data_of_run, open_run
from estimator_train.app.running.selected_checkpoint import checkpoint_prefix
from estimator_train.app.running.startup import starting_tensorflow

_EXAMPLES = """\b
Example:
  estimator_train report --model-dir runs/oct2017
"""


@click.command(epilog=_EXAMPLES)
@run_options
def report(model_dir, checkpoint, trust_run):
    """Write a report of a run: one HTML file with curves, metrics and the worst mistakes.

    This evaluates the checkpoint. The file, report/report.html in the directory of the run, is self-contained; the
    plots are next to it as PNG files. Training writes the same report when it ends.
    """
    run, settings = open_run(model_dir, trust_run)
    check_directory(model_dir, "model_dir")
    checkpoint = checkpoint_prefix(run, checkpoint)
    data = data_of_run(run, settings, trust_run)
    say_changes(run, settings, data)

    with starting_tensorflow():
        from estimator_train.app.running import build, evaluation, label_thresholds, reporting

    (checkpoint,) = build.checkpoint_paths(run, checkpoint)
    thresholds = label_thresholds.kept(settings, model_dir, checkpoint)
    (result,) = evaluation.evaluate(settings, data, model_dir, [checkpoint], thresholds)
    reporter = reporting.Reporter(settings, model_dir)
    with run_errors():
        reporter.add(checkpoint, result, data, name=evaluation.AFTERWARDS)
        path = reporter.write()
    click.echo(f"the report is {path}")
