"""Runs the sides of a benchmark in turn, A B A B, each in a process and an environment of its own."""

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

# `ours` and the peers choose their Keras and kernels themselves; and all are started as installed, with bytecode.
_NOT_THE_USERS = ("TF_CONFIG", "TF_USE_LEGACY_KERAS", "TF_ENABLE_ONEDNN_OPTS", "PYTHONDONTWRITEBYTECODE")


def environment():
    """That of this process, without what would change what is measured. On a GPU all sides are alive at once."""
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_THE_USERS}
    return kept | {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def run_in_turn(benchmark, pythons, pairs):
    """Returns for every side the list of its `pairs` answers: dicts of "wall" and "cpu", in seconds, and more.

    A process stays for all of them, set up and warmed up, but where the benchmark is of fresh processes: there "wall"
    is counted from the start of the process, and one round is run before those that count.
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
    """The name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


@contextlib.contextmanager
def _process(side, python):
    """Yields a function that has the process do its piece once more, and returns its answer; `sides/serve.py`."""
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
                sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{errors.read()[-3000:]}")
            return json.loads(line)

        def ask():
            print(file=process.stdin, flush=True)
            return read()

        try:
            read()  # it is ready
            yield ask
        finally:
            process.kill()
            process.communicate()
