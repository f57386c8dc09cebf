"""estimator_train launch: starts the processes of a TF_CONFIG cluster on this machine."""

import contextlib
import ctypes
import functools
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import click

from estimator_train.app.cli.parameters import Value
from estimator_train.app.running.directories import check_directory
from estimator_train.app.running.messages import warn
from estimator_train.app.runs.values import Number

# Below those that systems give to connections and to programs that ask for any port, which could take one before a
# task listens there: Linux from 32768 on, macOS and Windows from 49152 on.
_PORTS = range(10_000, 32_768)
_POLL_SECS = 0.2
_PR_SET_PDEATHSIG = 1  # from Linux's prctl.h


class _Task(NamedTuple):
    """A process of the cluster, and the thread that shows its lines."""

    process: subprocess.Popen[str]
    shown: threading.Thread


_EXAMPLES = """\b
Example:
  estimator_train launch --workers 2 --ps 1 --evaluator -- run script.py --its --flags
"""


@click.command(
    short_help="Start a TF_CONFIG cluster on this machine.",
    epilog=_EXAMPLES,
    context_settings={"ignore_unknown_options": True},
)
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True, help="Processes that train.")
@click.option("--ps", type=click.IntRange(0), default=0, show_default=True, help="Parameter servers.")
@click.option("--evaluator", is_flag=True, help="Add a process that evaluates the checkpoints.")
@click.option(
    "--logs",
    type=click.Path(file_okay=False),
    metavar="DIRECTORY",
    help="Write each task's lines to a file there, too.",
)
@click.option(
    "--grace-period",
    type=Value(Number("SECONDS")),
    default=10,
    show_default=True,
    help="Time that tasks have to save when they are stopped.",
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED)
def launch(
    workers: int, ps: int, evaluator: bool, logs: str | None, grace_period: float, arguments: tuple[str, ...]
) -> int:
    """Start estimator_train ARGUMENTS in several processes, with the TF_CONFIG of each.

    The first worker is the chief. If one process fails, all stop, and the command exits with its exit code.
    """
    if (workers > 1 or ps) and not evaluator:
        _check_no_evaluations(arguments)
    sizes = {"chief": 1, "worker": workers - 1, "ps": ps}
    addresses = iter(free_addresses(workers + ps))
    cluster = {job: list(itertools.islice(addresses, size)) for job, size in sizes.items() if size}
    if logs:
        check_directory(logs, "logs")
        os.makedirs(logs, exist_ok=True)
    sizes["evaluator"] = int(evaluator)  # it is not part of the cluster
    tasks = {}
    try:
        for job, size in sizes.items():
            for index in range(size):
                tasks[f"{job} {index}"] = _start(cluster, job, index, arguments, logs)
        return _wait(tasks)
    finally:
        _stop(tasks.values(), grace_period)


def _check_no_evaluations(arguments: Sequence[str]) -> None:
    if arguments[0] != "run" and any(each.partition("=")[0] == "--evaluate-every" for each in arguments):
        raise click.ClickException(
            "evaluations during training need a task of type evaluator; add --evaluator in front of the --, or leave "
            "out --evaluate-every"
        )


def free_addresses(count: int) -> list[str]:
    """Returns the addresses of `count` ports on this machine that are currently free."""
    ports = random.SystemRandom().sample(_PORTS, len(_PORTS))
    return [f"127.0.0.1:{port}" for port in itertools.islice(filter(_is_free, ports), count)]


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _start(
    cluster: Mapping[str, Sequence[str]], job: str, index: int, arguments: Sequence[str], logs: str | None
) -> _Task:
    """Starts a task, shows every line that it prints with its name, and appends it to the task's file in `logs`."""
    tf_config = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    process = subprocess.Popen(
        [sys.executable, "-m", "estimator_train", *arguments],
        env=os.environ | {"TF_CONFIG": tf_config, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=functools.partial(_end_with, os.getpid()),
    )

    def show() -> None:
        path = logs and os.path.join(logs, f"{job}-{index}.log")
        assert process.stdout is not None  # it is a pipe
        with process.stdout as lines, open(path, "a") if path else contextlib.nullcontext() as file:
            for line in lines:
                click.echo(f"[{job} {index}] {line}", nl=False)
                if file:
                    print(line, end="", file=file, flush=True)

    shown = threading.Thread(target=show, daemon=True)
    shown.start()
    return _Task(process, shown)


def _end_with(parent: int) -> None:
    """Makes Linux send SIGTERM to this process when the process `parent` ends, even by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has just ended
        os._exit(128 + signal.SIGTERM)


def _wait(tasks: Mapping[str, _Task]) -> int:
    """Waits, and returns the exit code of the first process that fails, or 0 once all have ended."""
    running = dict(tasks)
    while running:
        for name, task in list(running.items()):
            code = task.process.poll()
            if code:
                if code < 0:
                    code = 128 - code  # a shell's exit code for a signal
                warn(f"{name} failed with exit code {code}; stopping the others")
                return code
            if code == 0:
                del running[name]
        time.sleep(_POLL_SECS)
    return 0


def _stop(tasks: Collection[_Task], grace_period: float) -> None:
    for process, _ in tasks:
        process.terminate()  # if it has not ended
    end = time.monotonic() + grace_period
    for process, shown in tasks:
        try:
            process.wait(max(0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shown.join()
