"""The flags of the commands that read a run, and the checkpoint that they select."""

import os
from collections.abc import Callable
from typing import Any

import click

from estimator_train._engine.host.checkpoint_files import damage_of_files
from estimator_train._engine.host.files import printable
from estimator_train._engine.host.paths import as_path
from estimator_train.app.cli.parameters import Directory
from estimator_train.app.cli.settings import Invocation
from estimator_train.app.cli.table import option
from estimator_train.app.runs import checkpoints
from estimator_train.app.runs.stored_run import StoredRun


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --model-dir, --checkpoint and --trust-run to a command."""
    command = option(Invocation, "trust_run")(command)
    command = click.option(
        "--checkpoint",
        type=Directory("best|latest|STEP|PATH"),
        help="Checkpoint to use: the one kept by --keep-best, the newest, or any other by its step, name or path.  "
        "[default: best if the run keeps it, else latest]",
    )(command)
    return option(Invocation, "model_dir", required=True, help="Directory of a run.")(command)


def checkpoint_prefix(run: StoredRun, checkpoint: str | None) -> str | None:
    """Returns the path prefix of --checkpoint, by default of the kept best, which is said; None for the newest."""
    if checkpoint is None and run.keeps_best and run.best:
        check_damage(run, run.best, damage_of_files(run.best))
        click.echo(f"using {printable(run.best)}, kept by --keep-best; --checkpoint latest uses the last one", err=True)
        return run.best
    if checkpoint in (None, "latest"):
        return None
    if checkpoint.isdecimal():
        checkpoint = os.path.join(run.model_dir, f"model.ckpt-{checkpoint}")
    elif checkpoint in checkpoints.names_in(run.model_dir):
        checkpoint = os.path.join(run.model_dir, checkpoint)
    prefix = run.best if checkpoint == "best" else checkpoint.removesuffix(".index")
    if prefix is None:
        raise click.ClickException(
            f"--checkpoint best: {run.model_dir} has none; training keeps it with --evaluate-every STEPS --keep-best"
        )
    if prefix == run.best:
        check_damage(run, prefix, damage_of_files(prefix))
    if not as_path(f"{prefix}.index").exists():
        there = ", ".join(checkpoints.names_in(run.model_dir)) or "none"
        raise click.ClickException(f"--checkpoint {prefix}: there is no such checkpoint; {run.model_dir} has {there}")
    return prefix


def check_damage(run: StoredRun, prefix: str, damage: str | None) -> None:
    """Raises ClickException with what to use instead if a selected checkpoint is damaged."""
    if damage is None:
        return
    name = f"--checkpoint {prefix}"
    if prefix == run.best:
        name = f"{prefix}, kept by --keep-best,"
    raise click.ClickException(
        f"{printable(name)} is damaged: {printable(damage)}; --checkpoint latest uses the newest checkpoint"
    )
