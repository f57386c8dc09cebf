"""The flags of the commands that read a run."""

import click
from cloup.typing import F

from estimator_train.app.cli.invocation import Invocation
from estimator_train.app.cli.parameters import Value
from estimator_train.app.cli.table import option
from estimator_train.app.runs.values import Directory


def run_options(command: F) -> F:
    """Adds --model-dir, --checkpoint and --trust-run to a command."""
    command = option(Invocation, "trust_run")(command)
    command = click.option(
        "--checkpoint",
        type=Value(Directory("best|latest|STEP|PATH")),
        help="Checkpoint to use: the one kept by --keep-best, the newest, or any other by its step, name or path.  "
        "[default: best if the run keeps it, else latest]",
    )(command)
    return option(Invocation, "model_dir", required=True, help="Directory of a run.")(command)
