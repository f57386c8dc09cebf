"""The flags of the commands that read a run, and the checkpoint that they select."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from estimator_train._engine.host.files import printable
from estimator_train._engine.host.model_dirs import checkpoints_among
from estimator_train._engine.host.paths import as_path
from estimator_train.app.cli.directories import newest_checkpoint, run_file
from estimator_train.app.cli.parameters import Directory
from estimator_train.app.cli.run_file import read
from estimator_train.app.cli.settings import Invocation
from estimator_train.app.cli.table import option


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --model-dir, --checkpoint and --trust-run to a command."""
    for decorate in (
        option(Invocation, "trust_run"),
        click.option(
            "--checkpoint",
            type=Directory("best|latest|STEP|PATH"),
            help="Checkpoint to use: the one kept by --keep-best, the newest, or any other by its step or path.  "
            "[default: best if the run keeps it, else latest]",
        ),
        option(Invocation, "model_dir", required=True, help="Directory of a run."),
    ):
        command = decorate(command)
    return command


def checkpoint_prefix(model_dir: str, checkpoint: str | None) -> str | None:
    """Returns the path prefix of the checkpoint that `--checkpoint` selects, or None for the newest in `model_dir`.

    By default, it is the one that the run keeps as its best, which is then said.

    Raises:
      click.ClickException: the checkpoint does not exist.
    """
    if checkpoint is None and (kept := kept_checkpoint(model_dir)):
        click.echo(f"using {printable(kept)}, kept by --keep-best; --checkpoint latest uses the last one", err=True)
        return kept
    if checkpoint in (None, "latest"):
        return None
    if checkpoint.isdecimal():
        checkpoint = os.path.join(model_dir, f"model.ckpt-{checkpoint}")
    prefix = best_checkpoint(model_dir) if checkpoint == "best" else checkpoint.removesuffix(".index")
    if prefix is None:
        raise click.ClickException(
            f"--checkpoint best: {model_dir} has none; training keeps it with --evaluate-every STEPS --keep-best"
        )
    if not as_path(f"{prefix}.index").exists():
        directory = as_path(model_dir)
        there = checkpoints_among(path.name for path in (directory.iterdir() if directory.is_dir() else ()))
        raise click.ClickException(
            f"--checkpoint {prefix}: there is no such checkpoint; {model_dir} has {', '.join(there) or 'none'}"
        )
    return prefix


def kept_checkpoint(model_dir: str) -> str | None:
    """Returns the checkpoint that `checkpoint_prefix` takes by default: that of --keep-best, or None for the newest."""
    path = run_file(model_dir)
    keeps = path.exists() and read(path)["training"].get("keep_best")
    return best_checkpoint(model_dir) if keeps else None


def best_checkpoint(model_dir: str) -> str | None:
    """Returns the path prefix of the checkpoint that --keep-best keeps in `model_dir`, or None."""
    directory = as_path(model_dir, "export", "best_checkpoint")
    name = newest_checkpoint(directory)
    return name and os.path.join(directory, name)
