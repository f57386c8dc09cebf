"""A training of a recipe: resolved from flags, checked, shown and started."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import click

from estimator_train._engine.distribution.cluster_task import this_task
from estimator_train._engine.host.paths import absolute
from estimator_train.app import models, recipes
from estimator_train.app.cli import trust
from estimator_train.app.cli.conflicts import flag_of
from estimator_train.app.cli.directories import (
    check_place,
    model_dir_of,
    warn_of_lost_checkpoints,
)
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.cli.messages import on_terminal
from estimator_train.app.cli.settings import STORED, RateTest
from estimator_train.app.cli.startup import starting_tensorflow, verbosity_of
from estimator_train.app.cli.stored_settings import check_same, read
from estimator_train.app.cli.table import given_of, settings_in
from estimator_train.app.runs import run_file

_REPLICAS = ("gpus", "replicas", "all_reduce")  # work with every recipe


@dataclasses.dataclass(frozen=True)
class RecipeRun:
    """A training of a recipe.

    Attributes:
      settings: those of the recipe that are given.
      replicas: the values of `_REPLICAS`.
      verbosity: "quiet", "normal" or "verbose".
    """

    recipe: str
    settings: dict[str, Any]
    replicas: dict[str, Any]
    model_dir: str
    verbosity: str
    resume: bool


def resolve(flags: SimpleNamespace) -> RecipeRun:
    """Returns the run that the flags describe."""
    own = ("recipe", *_REPLICAS)
    settings = {name: value for name, value in given_of(flags, *STORED, RateTest).items() if name not in own}
    if settings.get("data_dir") and not settings["data_dir"].startswith("tfds:"):
        settings["data_dir"] = absolute(settings["data_dir"])
    replicas = {name: getattr(flags, name) for name in _REPLICAS}
    return RecipeRun(flags.recipe, settings, replicas, model_dir_of(flags), verbosity_of(flags), flags.resume)


def check(run: RecipeRun) -> None:
    """Rejects flags that the recipe does not take, and a directory that cannot take the run."""
    with one_line_errors():
        known, task = recipes.settings_of(run.recipe), this_task()
        models.check_weights(run.settings.get("weights"))
    for name in run.settings:
        if name not in known:
            flags = ", ".join(flag_of(name) for name in [*known, *_REPLICAS] if name in settings_in(*STORED))
            raise click.ClickException(f"the recipe {run.recipe} takes no {flag_of(name)}; it takes {flags}")
    if not task.is_alone:
        raise click.ClickException("a recipe trains in one process; unset TF_CONFIG")
    check_place(run.model_dir, is_new=not run.resume)
    if run_file.path_in(run.model_dir).exists():
        earlier = read(run_file.path_in(run.model_dir))
        check_same(run.settings, earlier["settings"], run.model_dir)
        if "epochs" in known and not run.settings.get("max_steps") and run_file.newest_checkpoint(run.model_dir):
            _check_epochs(run, earlier["training"])
    warn_of_lost_checkpoints(run.model_dir)


def _check_epochs(run, before):
    """Rejects another number of replicas, on which an epoch has another number of steps: a recipe counts these."""
    number, was = (each.get("gpus") or each.get("replicas") or 1 for each in (run.replicas, before))
    if number != was:
        raise click.ClickException(
            f"the epochs of the recipe {run.recipe} would end at other steps: the run has had {was} replicas until "
            f"now, and would have {number}; resume with as many as before, or give --max-steps"
        )


def show(run: RecipeRun) -> None:
    """Prints the flags that are given."""
    replicas = {name: value for name, value in run.replicas.items() if value}
    facts = {"recipe": run.recipe, **run.settings, **replicas, "folder": run.model_dir}
    click.echo(on_terminal([f"{name:<12} {value}" for name, value in facts.items()], indent=13))


def start(run: RecipeRun) -> int:
    """Trains and evaluates. Returns the exit code."""
    trust.remember({"recipe": run.recipe, **run.settings})
    with starting_tensorflow(run.verbosity):
        from estimator_train.app.cli.run import recipe_training

    return recipe_training.train(run)
