"""Runs the sides of a benchmark alternately, A B A B, each in its own process and environment."""

import contextlib
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# `ours` and the peers select Keras and kernels themselves; all run with bytecode files, as when installed.
_NOT_THE_USERS = ("TF_CONFIG", "TF_USE_LEGACY_KERAS", "TF_ENABLE_ONEDNN_OPTS", "PYTHONDONTWRITEBYTECODE")


def environment():
    """Returns this process's environment without variables that affect measurements; all sides may share a GPU."""
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_THE_USERS}
    return kept | {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def run_in_turn(benchmark, pythons, pairs):
    """Returns a list of `pairs` answers for every side: dicts with "wall" and "cpu" in seconds, and other numbers.

    Each side keeps one process, set up and warmed up. Benchmarks of fresh processes start a new one each time, measure
    "wall" from its start, and run one extra round first as a warm-up.
    """
    answers = {name: [] for name in benchmark.sides}
    with contextlib.ExitStack() as stack:
        runs = {}
        for name, side in benchmark.sides.items():
            start = functools.partial(_process, side, pythons[side.peer])
            runs[name] = functools.partial(_run_fresh, start) if benchmark.fresh else stack.enter_context(start())
        for pair in range(1 - benchmark.fresh, pairs + 1):
            for name, run in runs.items():
                answer = run()
                print(f"round {pair} of {pairs}: {name}: {answer['wall']:.3f} s", file=sys.stderr)
                if pair:
                    answers[name].append(answer)
    return answers


def _run_fresh(start):
    started = time.time()
    with start() as ask:
        answer = ask()
    return answer | {"wall": answer.get("ended", time.time()) - started}


def processor():
    """Returns the name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


@contextlib.contextmanager
def _process(side, python):
    """Yields a function that makes the process run its work once more and returns its answer; see `sides/serve.py`."""
    command = [python, "-m", f"benchmarks.sides.{side.peer}", side.work, json.dumps(side.options)]
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            env=environment() | side.environment | {"TMPDIR": scratch},
            cwd=side.checkout or ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

        def read():
            line = process.stdout.readline()
            if not line:
                process.wait()
                errors.seek(0)
                sys.exit(f"{' '.join(command)} exited with {process.returncode}:\n{errors.read()[-3000:]}")
            return json.loads(line)

        def ask():
            print(file=process.stdin, flush=True)
            return read()

        try:
            read()  # the process reports that it is ready
            yield ask
        finally:
            process.kill()
            process.communicate()
