"""estimator_train [train]: trains a model on a dataset and evaluates it."""

import types

import cloup
from click.core import ParameterSource

from estimator_train.app.cli.commands import dataset_run
from estimator_train.app.cli.conflicts import check_conflicts, kept
from estimator_train.app.cli.directories import model_dir_of
from estimator_train.app.cli.settings import RULES, TABLE
from estimator_train.app.cli.stored_settings import ask, flags_of
from estimator_train.app.cli.table import options
from estimator_train.app.runs import run_file

_EXAMPLES = """\b
Examples:
  estimator_train --dataset oct2017 --data-dir OCT2017 --gpus 2
  estimator_train --model-dir runs/oct2017 --resume
  estimator_train --config runs/oct2017/run.json --seed 2 --model-dir runs/again
"""


class _RepeatingCommand(cloup.Command):
    """Takes from the run of --config or --resume the flags that are neither given nor excluded by those given."""

    def parse_args(self, ctx, args):
        rest = super().parse_args(ctx, [*args])
        if ctx.resilient_parsing:  # for shell completion
            return rest
        path = _repeated(ctx.params)
        if path is None:
            return rest
        given = {
            name: value
            for name, value in ctx.params.items()
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
        ctx.default_map = kept(flags_of(path), given, RULES)
        ask(path, _theirs(ctx.default_map, given), ctx.params["trust_run"])
        ctx.params.clear()
        return super().parse_args(ctx, args)


def _repeated(params):
    """Returns the run.json to repeat, or None."""
    if params["config"] is not None or not params["resume"]:
        return params["config"]
    path = run_file.path_in(model_dir_of(types.SimpleNamespace(**params)))
    if path.exists():
        return path
    return None


def _theirs(flags, given):
    """Returns what the flags of a run name, without what the flags `given` on the command line replace."""
    theirs = {name: value for name, value in flags.items() if name not in given}
    if "data_dir" in given:
        return theirs | {"dataset": None}
    if "data_dir" in theirs:
        theirs["dataset"] = flags.get("dataset")  # it says what is written to the folder
    return theirs


@cloup.command(cls=_RepeatingCommand, epilog=_EXAMPLES)
@options(*TABLE)
def train(**flags):
    """Train a model on a dataset and evaluate it.

    A directory that already holds a run is refused without --resume. Ctrl-C saves a checkpoint and ends training.
    """
    flags = types.SimpleNamespace(**flags)
    check_conflicts(flags, RULES)
    run = dataset_run.resolve(flags)
    dataset_run.check(run)
    if flags.dry_run or not flags.quiet:
        dataset_run.show(run)
    if flags.dry_run:
        dataset_run.check_devices(run)
        return 0
    return dataset_run.start(run)
