"""estimator_train evaluate: evaluates checkpoints of a run."""

from __future__ import annotations

from pathlib import Path

import click
import tabulate

from estimator_train.cli.settings import Settings, checkpoint_prefix


@click.command()
@click.option("--model-dir", metavar="FOLDER", required=True, help="Folder of a run.")
@click.option("--checkpoint", metavar="PATH", help="Path of a checkpoint, such as FOLDER/model.ckpt-100.")
@click.option("--all", "all_checkpoints", is_flag=True, help="Evaluate every checkpoint of the run, in a table.")
def evaluate(model_dir, checkpoint, all_checkpoints):
    """Evaluate the newest checkpoint of a run, or others.

    The data and the model are those that the run was trained with.
    """
    if checkpoint and all_checkpoints:
        raise click.ClickException("--checkpoint and --all exclude each other; give one")
    settings = Settings.of_run(model_dir)
    checkpoint = checkpoint_prefix(checkpoint)

    from estimator_train.cli import job  # TensorFlow comes with it

    paths = [checkpoint] if checkpoint else job.checkpoint_paths(model_dir, all_checkpoints)
    results = job.evaluate(settings, model_dir, paths)
    rows = [
        {"checkpoint": Path(path).name, "step": metrics.pop("global_step"), **metrics}
        for path, metrics in zip(paths, results, strict=True)
    ]
    click.echo(tabulate.tabulate(rows, headers="keys", floatfmt=".4f"))
