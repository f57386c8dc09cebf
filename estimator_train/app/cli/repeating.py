"""Takes the flags that are not given from --config or, with --resume, from the run in --model-dir."""

import types

import cloup
from click.core import ParameterSource

from estimator_train.app.cli.conflicts import kept
from estimator_train.app.cli.directories import model_dir_of
from estimator_train.app.cli.settings import RULES
from estimator_train.app.cli.stored_settings import ask, flags_of
from estimator_train.app.runs import run_file


class RepeatingCommand(cloup.Command):
    """A command that may repeat a run; a flag on the command line replaces the run's and those that it excludes."""

    def parse_args(self, ctx, args):
        rest = super().parse_args(ctx, [*args])
        if ctx.resilient_parsing:  # for shell completion
            return rest
        path = ctx.params["config"]
        if path is None and ctx.params["resume"]:
            path = run_file.path_in(model_dir_of(types.SimpleNamespace(**ctx.params)))
            if not path.exists():
                return rest
        if path is None:
            return rest
        given = {
            name: value
            for name, value in ctx.params.items()
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
        flags = flags_of(path)
        ctx.default_map = kept(flags, given, RULES)
        ask(path, _theirs(ctx.default_map, given), ctx.params["trust_run"])
        ctx.params.clear()
        return super().parse_args(ctx, args)


def _theirs(flags, given):
    """Returns what the flags of a run name, without what the flags `given` on the command line replace."""
    theirs = {name: value for name, value in flags.items() if name not in given}
    if "data_dir" in given:
        return theirs | {"dataset": None}
    if "data_dir" in theirs:
        theirs["dataset"] = flags.get("dataset")  # it says what is written to the folder
    return theirs
