"""estimator_train [train]: trains a model on a dataset and evaluates it."""

import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import click
import cloup
from click.core import ParameterSource

from estimator_train.app.cli.invocation import RULES, TABLE, Invocation
from estimator_train.app.cli.table import options
from estimator_train.app.running import planning
from estimator_train.app.running.directories import MODEL_DIR_VARIABLES, model_dir_of
from estimator_train.app.running.opened_run import ask, named_by
from estimator_train.app.running.startup import verbosity_of
from estimator_train.app.runs import run_file
from estimator_train.app.runs.fields import settings_in
from estimator_train.app.runs.rules import check_rules, kept
from estimator_train.app.runs.spec import STORED

_EXAMPLES = """\b
Examples:
  estimator_train --dataset oct2017 --data-dir OCT2017 --gpus 2
  estimator_train --model-dir runs/oct2017 --resume
  estimator_train --config runs/oct2017/run.json --seed 2 --model-dir runs/again
"""


class _RepeatingCommand(cloup.Command):
    """Takes from the run of --config or --resume the flags that are neither given nor excluded by those given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, [*args])
        if ctx.resilient_parsing:  # for shell completion
            return rest
        path = _repeated(ctx.params)
        if path is None:
            return rest
        given = {name: ctx.params[name] for name in _typed(ctx)}
        ctx.default_map = kept(run_file.given_in(path), given, RULES)
        ask(path, named_by(ctx.default_map, given), ctx.params["trust_run"])
        ctx.params.clear()
        return super().parse_args(ctx, args)


def _typed(ctx: click.Context) -> list[str]:
    """Returns the names of the flags on the command line, not those of an earlier run or with a default."""
    return [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def _repeated(params: Mapping[str, Any]) -> Any:
    """Returns the run.json to repeat, or None."""
    if params["config"] is not None or not params["resume"]:
        return params["config"]
    path = run_file.path_in(model_dir_of(params["model_dir"], params))
    if path.exists():
        return path
    return None


@cloup.command(cls=_RepeatingCommand, epilog=_EXAMPLES)
@options(*TABLE)
@click.pass_context
def train(ctx: click.Context, **flags: Any) -> int:
    """Train a model on a dataset and evaluate it.

    A directory that already holds a run is refused without --resume. Ctrl-C saves a checkpoint and ends training.
    """
    check_rules(flags, RULES)
    run = planning.resolve(_request(ctx, flags))
    planning.check(run)
    if flags["dry_run"] or not flags["quiet"]:
        planning.show(run)
    if flags["dry_run"]:
        planning.check_devices(run)
        return 0
    return planning.start(run)


def _request(ctx: click.Context, flags: Mapping[str, Any]) -> planning.Request:
    call = Invocation(**{name: flags[name] for name in settings_in(Invocation)})
    return planning.Request(
        {name: flags[name] for name in settings_in(*STORED)},
        _typed(ctx),
        call.model_dir,
        repeats=call.config,
        resumes=call.resume,
        finds_rate=call.find_learning_rate,
        only_plans=call.dry_run,
        verbosity=verbosity_of(call),
        sources=_of_environment(ctx),
        command=shlex.join(["estimator_train", *sys.argv[1:]]),
    )


def _of_environment(ctx: click.Context) -> dict[str, str]:
    """Returns {fact of the plan: environment variable} for a --model-dir that a training service names."""
    if ctx.get_parameter_source("model_dir") is not ParameterSource.ENVIRONMENT:
        return {}
    return {"folder": next(name for name in MODEL_DIR_VARIABLES if os.environ.get(name))}
