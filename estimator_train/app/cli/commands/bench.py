"""estimator_train bench: measures how training scales with the number of replicas."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import RemotePath, StrPath, as_path
from estimator_train.app.cli.parameters import Value
from estimator_train.app.cli.table import option
from estimator_train.app.errors import one_line_errors
from estimator_train.app.running.directories import check_directory, check_not_a_class
from estimator_train.app.running.startup import starting_tensorflow
from estimator_train.app.runs import StoredRun, run_file
from estimator_train.app.runs.parsed_json import parsed
from estimator_train.app.runs.programs import check_former_words
from estimator_train.app.runs.spec import Settings
from estimator_train.app.runs.values import Count, Directory

_POLL_SECS = 0.1
# Flags of train that bench sets itself or cannot support.
_NOT_FOR_BENCH = (
    *("--model-dir", "--epochs", "--max-steps", "--phases"),
    *("--resume", "--find-learning-rate", "--dry-run", "--verbose"),
)

_EXAMPLES = """\b
Examples:
  estimator_train bench --dataset oct2017 --data-dir OCT2017
  estimator_train bench --dataset oct2017 --data-dir OCT2017 --model vgg16 --gpus 1,2,4,8
"""


class _Counts(click.ParamType):
    name = "N,N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        counts = value.split(",")
        if not all(count.isdecimal() and int(count) for count in counts) or len(set(counts)) < len(counts):
            self.fail(f"{value!r} is not a list of different numbers such as 1,2,4.", param, ctx)
        return [int(count) for count in counts]


@click.command(
    short_help="Measure how training scales with replicas.",
    epilog=_EXAMPLES,
    context_settings={"ignore_unknown_options": True},
)
@option(Settings, "dataset", help="Dataset to train on.")
@option(Settings, "data_dir", help="Directory of the data files.")
@click.option("--gpus", type=_Counts(), help="Numbers of GPUs, such as 1,2,4,8.")
@click.option("--replicas", type=_Counts(), help="Numbers of CPU replicas, such as 1,2.")
@click.option("--steps", type=Value(Count()), default=20, show_default=True, help="Steps to measure, after a warm-up.")
@click.option(
    "--out",
    type=Value(Directory()),
    default="bench",
    show_default=True,
    help="Directory for scaling.json and scaling.png.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[FLAGS OF TRAINING]")
def bench(
    dataset: str | None,
    data_dir: str | None,
    gpus: list[int] | None,
    replicas: list[int] | None,
    steps: int,
    out: str,
    arguments: tuple[str, ...],
) -> None:
    """Measure how training scales with replicas; without --gpus or --replicas, say what limits one device.

    Each number of replicas trains for a few steps in its own process, with any flags of train that you add. The
    examples/s come from its timing.json. The batch size is per replica.
    """
    check_former_words(arguments, arguments)
    if not dataset:
        raise click.ClickException("bench trains on a dataset: give --dataset NAME")
    _check(gpus, replicas, arguments)
    check_directory(out, "out")
    check_not_a_class(out, "out", dataset, data_dir)
    flags = ["--dataset", dataset]
    if data_dir:
        flags += ["--data-dir", data_dir]
    flags += arguments
    timings, paragraph = {}, None
    for count, devices in _devices(gpus, replicas):
        run = [*flags, *devices, "--max-steps", str(steps + 1)]
        with tempfile.TemporaryDirectory(prefix="estimator_train-bench-") as model_dir:
            timings[count] = timing_of_run(run, steps + 1, model_dir)
            train_examples = run_file.read(run_file.path_in(Path(model_dir, "run")))["data"]["train"]
            if not devices:
                paragraph = _diagnosis(timings[count], Path(model_dir, "run"))
        click.echo(f"{shlex.join(run)}: {timings[count]['examples_per_second']:.1f} examples/s", err=True)

    from estimator_train.app.report import scaling  # matplotlib comes with it

    rows = scaling.scaling(timings, train_examples)
    click.echo(scaling.table(rows))
    if paragraph:
        click.echo(paragraph)
    if len(rows) > 1:
        click.echo(scaling.limit(rows, cores=None if gpus else os.cpu_count()))
    _write(as_path(out), rows, {"flags": flags, "steps": steps, "scaling": rows})


def _check(gpus: Sequence[int] | None, replicas: Sequence[int] | None, arguments: Sequence[str]) -> None:
    if gpus and replicas:
        raise click.ClickException("bench takes GPUs or CPU replicas: give --gpus 1,2,4 or --replicas 1,2")
    for argument in arguments:
        if argument.partition("=")[0] in _NOT_FOR_BENCH:
            raise click.ClickException(f"{argument} is not for bench, whose runs are short and not kept; leave it out")


def _devices(gpus: Sequence[int] | None, replicas: Sequence[int] | None) -> list[tuple[int, list[str]]]:
    """Returns (number of replicas, flags of its devices) of each training."""
    for flag, counts in (("--gpus", gpus), ("--replicas", replicas)):
        if counts:
            return [(count, [flag, str(count)]) for count in counts]
    return [(1, [])]


def _write(folder: Path | RemotePath, rows: Sequence[Mapping[str, Any]], measured: Mapping[str, Any]) -> None:
    from estimator_train.app.report import scaling

    with one_line_errors():
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "scaling.json", json.dumps(measured, indent=2) + "\n")
        scaling.plot(rows, folder / "scaling.png")
    click.echo(f"the plot is {folder / 'scaling.png'}")


def timing_of_run(flags: Sequence[str], steps: int, model_dir: StrPath) -> dict[str, Any]:
    """Trains for `steps` steps in `model_dir`, in a separate process, and returns what `TimingHook` measured.

    The process is killed once training has finished, to save the time of the final evaluation.
    """
    timing_file = Path(model_dir, "run", "timing.json")
    errors_file = Path(model_dir, "errors")
    command = [sys.executable, "-m", "estimator_train", "train", *flags, "--quiet"]
    command += ["--model-dir", str(timing_file.parent)]
    with errors_file.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        while process.poll() is None and _steps(timing_file) < steps:  # training may have several parts
            time.sleep(_POLL_SECS)
    finally:
        process.kill()
        process.wait()
    timing = _timing(timing_file)
    if not timing:
        raise click.ClickException(f"{shlex.join(flags)} failed: {_reason(process.returncode, errors_file)}")
    if timing["examples_per_second"] is None:
        raise click.ClickException(
            f"{shlex.join(flags)} ended with its first step, which is warm-up; give it more data"
        )
    return timing


def _reason(code: int, errors_file: Path) -> str:
    lines = [line for line in errors_file.read_text(errors="replace").splitlines() if line.strip()]
    return [f"exit code {code}", *lines][-1].removeprefix("estimator_train: ")


def _steps(path: Path) -> int:
    timing = _timing(path)
    return timing.get("steps", 0) + timing.get("warmup_steps", 0)


def _timing(path: Path) -> dict[str, Any]:
    """Returns the contents of a timing.json; empty if it is missing or incomplete."""
    if not path.exists():
        return {}
    return parsed(path.read_bytes()) or {}


def _diagnosis(timing: Mapping[str, Any], run: Path) -> str:
    with starting_tensorflow():
        from estimator_train.app.running.build import build_train_input_fn
        from estimator_train.app.running.result import diagnosis

    spec = StoredRun(run).spec
    settings, training = spec.settings, spec.training
    data = settings.open_data()
    return diagnosis(timing, settings, training, data, build_train_input_fn(settings, data, training))
