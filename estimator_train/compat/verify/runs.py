"""Runs a script in a directory of its own, with the Python of either TensorFlow."""

import contextlib
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from estimator_train._engine.remedies import UserError
from estimator_train.compat.tf1.missing_name import name_of_tf1
from estimator_train.compat.verify import side

# The scripts are one process each, and the old TensorFlow may lack the package tf_keras.
_OF_THIS_SHELL = ("TF_CONFIG", "TF_USE_LEGACY_KERAS")
_POLL_SECONDS = 0.2
_TENSORFLOW_1 = "a Python 3.7 with: python -m pip install tensorflow==1.15.5 'protobuf<3.21'"
_TENSORFLOW_2 = "a Python from 3.9 to 3.11 with: python -m pip install tensorflow==2.15.1"


class NotVerifiedError(UserError, ValueError):
    """A script does not run on both sides."""


class Run(NamedTuple):
    """A run that has ended: its directory, its output, its exit code, and the seconds it took."""

    directory: Path
    output: str
    errors: str
    code: int
    seconds: float

    @property
    def last_line(self) -> str:
        """The last line of the errors, which names the one that ended the script, if it has ended by one."""
        lines = self.errors.strip().splitlines()
        if not lines:
            return f"exit code {self.code}"
        if self.code != 1:  # a signal, or the script's own code; it may have left a warning there
            return f"exit code {self.code}, after the line: {lines[-1]}"
        return lines[-1]


def run(
    python: str,
    program: Sequence[str | os.PathLike[str]],
    directory: Path,
    *,
    time_limit: float | None = None,
    environment: Mapping[str, str] = os.environ,
    until: Callable[[], bool] | None = None,
) -> Run:
    """Runs a program, as the arguments of `python` give it, in `directory`, with its temporary files below it.

    It finds modules in the current directory, and its output is beside its own. Raises NotVerifiedError if it has not
    ended after `time_limit` seconds; it is killed then, and so are the processes that it has started. It is killed,
    too, and that is no error, once `until` returns true.
    """
    (directory / "tmp").mkdir(parents=True, exist_ok=True)
    variables = {name: value for name, value in environment.items() if name not in _OF_THIS_SHELL}
    variables["TMPDIR"] = str(directory / "tmp")
    if program[0] == "-m":
        paths = [os.getcwd(), variables.get("PYTHONPATH")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    output, errors = (directory.with_suffix(suffix) for suffix in (".stdout", ".stderr"))
    start = time.perf_counter()
    command = [python, side.__file__, *program]
    with output.open("wb") as out, errors.open("wb") as err:
        child = subprocess.Popen(command, cwd=directory, env=variables, stdout=out, stderr=err, start_new_session=True)
        code = _exit_code(child, time_limit, until)
    seconds = time.perf_counter() - start
    if code is None:
        raise NotVerifiedError(f"the script has not ended after {time_limit:g} seconds with {python}")
    return Run(directory, output.read_text(errors="replace"), errors.read_text(errors="replace"), code, seconds)


def _exit_code(
    process: subprocess.Popen[bytes], time_limit: float | None, until: Callable[[], bool] | None
) -> int | None:
    """Waits for a process, and kills what it has started; returns None if it has not ended in time.

    Returns 0 if it had to be killed because `until` has become true.
    """
    deadline = math.inf if time_limit is None else time.monotonic() + time_limit
    try:
        while until is not None and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_POLL_SECONDS)
            if until():
                return 0
        return process.wait(None if deadline == math.inf else max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):  # none is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tensorflow_version(python: str) -> str:
    """Returns the version of the TensorFlow of a Python. Raises NotVerifiedError if it has none."""
    code = "import tensorflow as tf; print(tf.__version__)"
    asked = subprocess.run([python, "-c", code], capture_output=True, text=True)
    version = ["", *asked.stdout.split()][-1]
    if asked.returncode or not version[:1].isdecimal():
        error = ["it is no Python", *asked.stderr.strip().splitlines()][-1]
        raise NotVerifiedError(
            f"{python} has no TensorFlow: {error}; give {_TENSORFLOW_2}; or, for TensorFlow 1, {_TENSORFLOW_1}"
        )
    return version


def why_it_fails(run: Run, version: str) -> str:
    """Returns the last line of a run's errors, with what to do if it needs TensorFlow 1 instead of this version."""
    name = name_of_tf1(_error(run.last_line))
    if version.startswith("1.") or name is None:
        return run.last_line
    return f"{run.last_line}; {name} is of TensorFlow 1: run it with {_TENSORFLOW_1}"


def _error(line: str) -> BaseException:
    """Returns the error that a traceback's last line shows."""
    message = line.partition(": ")[2]
    if named := re.match(r"No module named '([\w.]+)'|cannot import name '\w+' from '([\w.]+)'", message):
        return ImportError(message, name=named[1] or named[2])
    return AttributeError(message)
