"""Runs a script in a directory of its own, with the Python of either TensorFlow."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from estimator_train._engine.remedies import UserError
from estimator_train.compat.verify import side

# The scripts are one process each, and the old TensorFlow may lack the package tf_keras.
_OF_THIS_SHELL = ("TF_CONFIG", "TF_USE_LEGACY_KERAS")


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
        """The last line of the errors, which names the one that ended the script."""
        lines = self.errors.strip().splitlines() or [f"exit code {self.code}"]
        return lines[-1]


def run(
    python: str,
    program: Sequence[str | os.PathLike[str]],
    directory: Path,
    *,
    time_limit: float | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Run:
    """Runs a program, as the arguments of `python` give it, in `directory`, with its temporary files below it.

    Its output is beside the directory. Raises NotVerifiedError if it has not ended after `time_limit` seconds; it is
    killed then, and so are the processes that it has started.
    """
    (directory / "tmp").mkdir(parents=True, exist_ok=True)
    variables = {name: value for name, value in environment.items() if name not in _OF_THIS_SHELL}
    variables["TMPDIR"] = str(directory / "tmp")
    output, errors = (directory.with_suffix(suffix) for suffix in (".stdout", ".stderr"))
    start = time.perf_counter()
    command = [python, side.__file__, *program]
    with output.open("wb") as out, errors.open("wb") as err:
        child = subprocess.Popen(command, cwd=directory, env=variables, stdout=out, stderr=err, start_new_session=True)
        code = _exit_code(child, time_limit)
    seconds = time.perf_counter() - start
    if code is None:
        raise NotVerifiedError(f"{program[0]} has not ended after {time_limit:g} seconds with {python}")
    return Run(directory, output.read_text(errors="replace"), errors.read_text(errors="replace"), code, seconds)


def _exit_code(process: subprocess.Popen[bytes], time_limit: float | None) -> int | None:
    """Waits for a process, and kills what it has started; returns None if it has not ended itself by then."""
    try:
        return process.wait(time_limit)
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
    if asked.returncode:
        error = asked.stderr.strip().splitlines()[-1]
        raise NotVerifiedError(f"{python} has no TensorFlow: {error}; run: {python} -m pip install tensorflow")
    return asked.stdout.split()[-1]
