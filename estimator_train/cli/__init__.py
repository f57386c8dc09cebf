"""The estimator_train command. A module a subcommand; arguments are checked before TensorFlow is imported."""

import os
import sys

import click

from estimator_train import __version__
from estimator_train.cli.evaluate import evaluate
from estimator_train.cli.export import export
from estimator_train.cli.launch import launch
from estimator_train.cli.predict import predict
from estimator_train.cli.run import run
from estimator_train.cli.train import train


class _Commands(click.Group):
    """Trains where no subcommand is named."""

    def parse_args(self, ctx, args):
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "--version")):
            args = ["train", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Commands)
@click.version_option(__version__, prog_name="estimator_train")
def commands():
    """Train, evaluate and look after Estimators on today's TensorFlow.

    \b
    Without a command it trains:
      estimator_train                                   on the embedded data set, synthetic_oct
      estimator_train --dataset oct2017 --data-dir OCT2017 --gpus 2
      estimator_train --dataset images --data-dir FOLDER --model mobilenet_v2
      estimator_train --dataset oct2017 --data-dir OCT2017 --evaluate-every 500 --early-stopping 3 --keep-best
      estimator_train evaluate --model-dir runs/oct2017
      estimator_train predict --model-dir runs/oct2017 scan.jpeg
      estimator_train export --model-dir runs/oct2017 --format saved_model --out DIR
      estimator_train run old_script.py --its --own --flags

    The flags of training: estimator_train train --help
    """


commands.add_command(train)
commands.add_command(evaluate)
commands.add_command(predict)
commands.add_command(export)
commands.add_command(run)
commands.add_command(launch)


def main():
    """Runs the command; wrong input ends with one line on standard error and exit code 2.

    A command may give back a function: it is called here, where none of its errors is taken for wrong input.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's notes on how it was built
    try:
        outcome = commands.main(prog_name="estimator_train", standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"estimator_train: {' '.join(error.format_message().split())}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("estimator_train: interrupted", err=True)
        sys.exit(130)
    sys.exit(outcome() if callable(outcome) else outcome)
