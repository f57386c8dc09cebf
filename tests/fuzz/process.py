"""A process that checks cases one after another. `python -m tests.fuzz.process KIND` is its other side."""

from __future__ import annotations

import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

_CASES = 50  # of one process: TensorFlow keeps some memory of each


class CheckingProcess:
    """Checks cases of a kind in another process, which is started anew when it ends or takes too long."""

    def __init__(self, kind: str, limit: float):
        self._kind, self._limit = kind, limit
        self._process: subprocess.Popen | None = None
        self._checked = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self._end()

    def failure(self, case: dict) -> str | None:
        """Returns how the case fails, with the exception in the last line; None if it does not fail."""
        if self._process is None or self._checked == _CASES:
            self._end()
            self._start()
        self._checked += 1
        self._process.stdin.write(json.dumps(case).encode() + b"\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], self._limit)[0]:
            self._end()
            return f"TimeoutError: no result after {self._limit:g} s"
        if reply := self._process.stdout.readline():
            return json.loads(reply)
        self._process.wait()
        self._errors.seek(0)
        said, code = self._errors.read().decode(errors="replace")[-3000:], self._process.returncode
        self._end()
        return f"{said}\nProcessEnded: exit code {code}"

    def _start(self):
        self._checked = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed by _end
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.process", self._kind],
            cwd=Path(__file__).parents[2],
            env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def _end(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._errors):
                stream.close()
            self._process = None


def _answer(kind):
    """Reads cases from stdin and writes their failures to stdout; what the checks print goes to stderr."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module = importlib.import_module(f"tests.fuzz.{kind}")
    getattr(module, "prepare", lambda: None)()
    for line in sys.stdin:
        failure = None
        with tempfile.TemporaryDirectory(prefix="fuzz") as directory:
            try:
                module.check(json.loads(line), Path(directory))
            except Exception as error:
                summary = " ".join(str(error).split())[:300]
                failure = f"{traceback.format_exc()[-3000:]}\n{type(error).__name__}: {summary}"
        print(json.dumps(failure), file=replies, flush=True)


if __name__ == "__main__":
    _answer(sys.argv[1])
