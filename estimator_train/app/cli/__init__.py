"""The estimator_train command: one module per subcommand. Arguments are checked before TensorFlow is imported."""

import errno
import io
import os
import sys
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from estimator_train import __version__
from estimator_train._engine.host.files import printable
from estimator_train.app.cli.commands.bench import bench
from estimator_train.app.cli.commands.compare import compare
from estimator_train.app.cli.commands.datasets import datasets
from estimator_train.app.cli.commands.evaluate import evaluate
from estimator_train.app.cli.commands.export import export
from estimator_train.app.cli.commands.launch import launch
from estimator_train.app.cli.commands.memory import memory
from estimator_train.app.cli.commands.predict import predict
from estimator_train.app.cli.commands.report import report
from estimator_train.app.cli.commands.run import run
from estimator_train.app.cli.commands.scan import scan
from estimator_train.app.cli.commands.train import train
from estimator_train.app.cli.commands.verify import verify
from estimator_train.app.cli.synonyms import meant_by
from estimator_train.app.errors import SettingError, as_flag, spelling
from estimator_train.app.running.messages import warn
from estimator_train.app.running.termination import SignalReceived, raising_signals
from estimator_train.app.runs.programs import check_former_words

_EXAMPLES = """\b
Examples:
  estimator_train                                   on the embedded dataset, synthetic_oct
  estimator_train --dataset oct2017 --data-dir OCT2017 --split patient --gpus 2
  estimator_train --dataset images --data-dir FOLDER --model mobilenet_v2
  estimator_train --dataset oct2017 --data-dir OCT2017 --evaluate-every 500 --early-stopping 3 --keep-best
  estimator_train --model-dir runs/oct2017 --resume
  estimator_train evaluate --model-dir runs/oct2017
  estimator_train predict --model-dir runs/oct2017 scan.jpeg
  estimator_train export --model-dir runs/oct2017 --format saved_model --out DIR
  estimator_train run old_script.py --its --own --flags
  estimator_train scan old_repository
  estimator_train verify old_script.py --python215 tf215/bin/python

\b
Bash completes commands, flags and names after
  eval "$(_ESTIMATOR_TRAIN_COMPLETE=bash_source estimator_train)"
and zsh and fish after the same with zsh_source and fish_source.
"""


class _Commands(click.Group):
    """Runs `train` if no subcommand is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        trains = args and args[0].startswith("-") and args[0] not in ("-h", "--help", "--version")
        if trains or not (args or ctx.resilient_parsing):  # completing the first word offers the subcommands
            args = ["train", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        check_former_words(args[:1], args)
        if args[0] not in self.commands and os.path.isdir(args[0]):
            raise click.ClickException(f"{args[0]} is no command; to train on that folder, give --data-dir {args[0]}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            check_former_words([error.option_name], sys.argv)
            raise
        except click.MissingParameter as error:
            if error.ctx is None or error.param is None or error.param.name != "model_dir":
                raise
            run = next((word for word in sys.argv[2:] if os.path.isdir(word)), "RUN")
            command = f"{error.ctx.info_name} --model-dir {run}"
            raise click.ClickException(f"the folder of a run is given by --model-dir: {command}") from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        completions = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            completions += train.shell_complete(ctx, incomplete)
        return completions


@click.group(cls=_Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="estimator_train")
def commands() -> None:
    """Train, evaluate and manage Estimators on today's TensorFlow.

    Without a command, it trains; see estimator_train train --help for the flags.
    """


for _command in (train, evaluate, report, compare, predict, export, run, scan, verify, launch, datasets, memory, bench):
    commands.add_command(_command)


def main() -> NoReturn:
    """Runs the command; invalid input prints one line on standard error and exits with code 2.

    Only an error that needs several lines has them. A command may return a function, which is called here
    last: its errors are not mistaken for invalid input, and it handles signals itself.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # hides TensorFlow's notes on how it was built
    color = False if os.environ.get("NO_COLOR") else None  # None: only on a terminal
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed by whoever started the command
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: a class may have letters that it lacks
    try:
        with raising_signals(), spelling(as_flag):
            outcome = commands.main(prog_name="estimator_train", standalone_mode=False, color=color)
            print(end="", flush=True)
    except (click.ClickException, SettingError) as error:
        _say_invalid(error, color)
        sys.exit(error.exit_code if isinstance(error, SettingError) else 2)
    except (click.Abort, KeyboardInterrupt):
        _exit_with(130, "interrupted")
    except SignalReceived as error:
        _exit_with(128 + error.number, f"stopped by {error.number.name}")
    except BrokenPipeError:  # the reader, such as head, has exited
        sys.exit(1)
    except OSError as error:
        unwritten = _unwritten(error)
        if unwritten is None:
            raise
        _exit_with(1, f"{unwritten} cannot be written: {error.strerror or error}")
    if callable(outcome):
        outcome = outcome()
    sys.exit(outcome)


def _exit_with(code: int, why: str) -> NoReturn:
    """Ends the command, and says why."""
    warn(why)
    sys.exit(code)


def _say_invalid(error: click.ClickException | SettingError, color: bool | None) -> None:
    if isinstance(error, click.NoSuchOption):
        error.possibilities = meant_by(error)  # type: ignore[misc]  # final to type checkers only
    prefix = click.style("estimator_train:", fg="red")
    text = error.spelled(as_flag) if isinstance(error, SettingError) else error.format_message()
    lines = [text]
    if isinstance(error, SettingError) and not error.is_one_line:
        lines = text.split("\n")
    message = "\n".join(printable(" ".join(line.split())) for line in lines)
    click.echo(f"{prefix} {message}", err=True, color=color)


def _unwritten(error: OSError) -> str | None:
    """Returns what could not be written: standard output, or a file on a full disk. None for any other error."""
    if error.filename is None:
        try:
            click.echo()  # the failed output is lost, so write another line to see whether that fails, too
        except OSError:
            return "standard output"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return error.filename or "a file"
    return None
