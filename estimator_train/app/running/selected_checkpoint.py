"""The checkpoint of a run that is to be evaluated, exported or used for predictions."""

import os

import click

from estimator_train._engine.host.checkpoint_files import damage_of_files
from estimator_train._engine.host.files import printable
from estimator_train._engine.host.paths import as_path
from estimator_train.app.errors import SettingError, spelled
from estimator_train.app.runs import checkpoints
from estimator_train.app.runs.stored_run import StoredRun


def checkpoint_prefix(run: StoredRun, checkpoint: str | int | None) -> str | None:
    """Returns the path prefix of --checkpoint, by default of the kept best, which is said; None for the newest."""
    if isinstance(checkpoint, int):
        checkpoint = str(checkpoint)  # a step
    if checkpoint is None and run.keeps_best and run.best:
        check_damage(run, run.best, damage_of_files(run.best))
        text = "using {0}, kept by {keep_best}; {checkpoint=latest} uses the last one"
        click.echo(spelled(text, printable(run.best)), err=True)
        return run.best
    if checkpoint in (None, "latest"):
        return None
    if checkpoint.isdecimal():
        checkpoint = os.path.join(run.model_dir, f"model.ckpt-{checkpoint}")
    elif checkpoint in checkpoints.names_in(run.model_dir):
        checkpoint = os.path.join(run.model_dir, checkpoint)
    prefix = run.best if checkpoint == "best" else checkpoint.removesuffix(".index")
    if prefix is None:
        raise SettingError(
            "{checkpoint=best}: {0} has none; training keeps it with {evaluate_every=STEPS} {keep_best}", run.model_dir
        )
    if prefix == run.best:
        check_damage(run, prefix, damage_of_files(prefix))
    if not as_path(f"{prefix}.index").exists():
        there = ", ".join(checkpoints.names_in(run.model_dir)) or "none"
        raise SettingError("{checkpoint} {0}: there is no such checkpoint; {1} has {2}", prefix, run.model_dir, there)
    return prefix


def check_damage(run: StoredRun, prefix: str, damage: str | None) -> None:
    """Raises SettingError with what to use instead if a selected checkpoint is damaged."""
    if damage is None:
        return
    named = "{checkpoint} {0}"
    if prefix == run.best:
        named = "{0}, kept by {keep_best},"
    raise SettingError(
        f"{named} is damaged: {{1}}; {{checkpoint=latest}} uses the newest checkpoint",
        printable(prefix),
        printable(damage),
    )
