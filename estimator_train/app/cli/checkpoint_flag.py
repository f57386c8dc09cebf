"""The options --model-dir and --checkpoint of the commands that read a run."""

from __future__ import annotations

import os

import click

from estimator_train._engine.host.model_dirs import checkpoints_among
from estimator_train._engine.host.paths import as_path
from estimator_train.app.cli import completion, environment
from estimator_train.app.cli.parameters import Folder
from estimator_train.app.cli.plan import newest_checkpoint

model_dir_option = click.option(
    "--model-dir",
    type=Folder(),
    metavar="FOLDER",
    required=True,
    envvar=environment.MODEL_DIR,
    shell_complete=completion.folders,
    help="Directory of a run.",
)

checkpoint_option = click.option(
    "--checkpoint",
    type=Folder(),
    metavar="best|latest|STEP|PATH",
    default="latest",
    show_default=True,
    help="Checkpoint to use: the one kept by --keep-best, the newest, or any other by its step or path.",
)


def checkpoint_prefix(model_dir: str, checkpoint: str) -> str | None:
    """Returns the path prefix of the checkpoint that `--checkpoint` selects, or None for the newest in `model_dir`.

    Raises:
      click.ClickException: the checkpoint does not exist.
    """
    if checkpoint == "latest":
        return None
    if checkpoint.isdecimal():
        checkpoint = os.path.join(model_dir, f"model.ckpt-{checkpoint}")
    prefix = best_checkpoint(model_dir) if checkpoint == "best" else checkpoint.removesuffix(".index")
    if prefix is None:
        raise click.ClickException(
            f"--checkpoint best: {model_dir} has none; training keeps it with --evaluate-every STEPS --keep-best"
        )
    if not as_path(f"{prefix}.index").exists():
        folder = as_path(model_dir)
        there = checkpoints_among(path.name for path in (folder.iterdir() if folder.is_dir() else ()))
        raise click.ClickException(
            f"--checkpoint {prefix}: there is no such checkpoint; {model_dir} has {', '.join(there) or 'none'}"
        )
    return prefix


def best_checkpoint(model_dir: str) -> str | None:
    """Returns the path prefix of the checkpoint that --keep-best keeps in `model_dir`, or None."""
    folder = as_path(model_dir, "export", "best_checkpoint")
    name = newest_checkpoint(folder)
    return name and os.path.join(folder, name)
