"""estimator_train [train]: trains a model on a dataset and evaluates it."""

import types

import cloup

from estimator_train.app.cli.commands import dataset_run
from estimator_train.app.cli.conflicts import check_conflicts
from estimator_train.app.cli.repeating import RepeatingCommand
from estimator_train.app.cli.settings import RULES, TABLE
from estimator_train.app.cli.table import options

_EXAMPLES = """\b
Examples:
  estimator_train --dataset oct2017 --data-dir OCT2017 --gpus 2
  estimator_train --model-dir runs/oct2017 --resume
  estimator_train --config runs/oct2017/run.json --seed 2 --model-dir runs/again
"""


@cloup.command(cls=RepeatingCommand, epilog=_EXAMPLES)
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
