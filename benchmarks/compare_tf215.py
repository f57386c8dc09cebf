"""Checks that the scripts in examples/legacy give the same numbers as on TensorFlow 2.15's own tf.estimator.

    python -m benchmarks.compare_tf215 [--tf215-python PYTHON] [--write-expected]

The scripts in examples/legacy/tf1 run with --tf1 and --replicas 2. TensorFlow 2.15 has no tf.contrib, so it runs them
with the patches in benchmarks/tf1_by_hand, which update their names for 2.15.

It writes docs/compare_tf215.md with the differences, the times of both, and their results in benchmarks/behaviour.py.
Both sides run on the CPU, alternately (A B A B …). TensorFlow 2.15 runs in a virtual environment that the first run
creates in the platform's cache directory.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from benchmarks import peers
from benchmarks.runner import environment

ROOT = Path(__file__).resolve().parents[1]
LEGACY, BY_HAND = ROOT / "examples" / "legacy", ROOT / "benchmarks" / "tf1_by_hand"
SCRIPTS = [*sorted(LEGACY.glob("*.py")), *sorted(LEGACY.glob("tf1/*.py"))]
BEHAVIOUR = ROOT / "benchmarks" / "behaviour.py"
REPORT = ROOT / "docs" / "compare_tf215.md"
EXPECTED = ROOT / "tests" / "data" / "tf215" / "results.json"
PAIRS, TOLERANCE = 3, 1e-5

NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}  # GPUs sum in a different order

TEXT = """# tf.estimator's numbers, on today's TensorFlow

Written by `python -m benchmarks.compare_tf215`.

Each script of [examples/legacy](../examples/legacy) ran unmodified on TensorFlow {old} with its own tf.estimator
(`python script.py`) and on TensorFlow {new} (`estimator_train run script.py`), from the same initial values and data.
The scripts in `tf1` are written for TensorFlow 1. They ran unmodified on TensorFlow {new} (`estimator_train run --tf1
--replicas 2 script.py`); TensorFlow {old} ran them with the patches in
`benchmarks/tf1_by_hand`, which change names by hand.
The table compares losses, metrics, predictions and variables. Differences are relative to the old value, or absolute
if that is below 1; up to {tolerance:g} is allowed. Seconds are for the whole process, including TensorFlow's start:
medians of {pairs} runs per side, in turn, on {cores} CPU cores. The ratio is new over old: the median of the pairs,
with the lowest and the highest.

{table}

## Behaviour that programs rely on

The functions in [benchmarks/behaviour.py](../benchmarks/behaviour.py) define each case; numbers have six digits.

{behaviour}
"""


def main():
    parser = argparse.ArgumentParser(description="Compares the scripts of examples/legacy with TensorFlow 2.15.")
    parser.add_argument("--tf215-python", help="a Python with TensorFlow 2.15 [set up by default]")
    parser.add_argument("--write-expected", action="store_true", help=f"also write {EXPECTED.relative_to(ROOT)}")
    args = parser.parse_args()
    old_python = args.tf215_python or peers.set_up("tf215")

    expected, rows, largest = {"tensorflow": tensorflow_version(old_python)}, [], 0.0
    for script in SCRIPTS:
        with tempfile.TemporaryDirectory() as directory:
            old_command, new_command = commands(script, old_python, directory)
            pairs = [(run(old_command), run(new_command)) for _ in range(PAIRS)]
        (old, _), (new, _) = pairs[0]
        expected[key(script)] = old
        count, difference = compare(flat(old), flat(new))
        largest = max(largest, difference)
        seconds = [statistics.median(pair[side][1] for pair in pairs) for side in (0, 1)]
        ratios = sorted(new_seconds / old_seconds for (_, old_seconds), (_, new_seconds) in pairs)
        ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        rows.append([f"{key(script)}.py", count, f"{difference:.1e}", *(f"{each:.1f}" for each in seconds), ratio])

    versions = {"old": expected["tensorflow"], "new": tensorflow_version(sys.executable)}
    headers = ["script", "values", "largest difference", *(f"s, {version}" for version in versions.values()), "ratio"]
    table = tabulate(rows, headers, tablefmt="github", disable_numparse=True)
    print(table)
    of_both = [run(command)[0] for command in commands(BEHAVIOUR, old_python, None)]
    largest = max(largest, compare(*map(flat, of_both))[1])
    rows = [[name.replace("_", " "), *(shown(values[name]) for values in of_both)] for name in of_both[0]]
    behaviour = tabulate(rows, ["behaviour", *versions.values()], tablefmt="github", disable_numparse=True)
    print(behaviour)
    REPORT.parent.mkdir(exist_ok=True)
    settings = {"tolerance": TOLERANCE, "pairs": PAIRS, "cores": os.cpu_count()}
    REPORT.write_text(TEXT.format(**versions, **settings, table=table, behaviour=behaviour))
    if args.write_expected:
        EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")
    if largest > TOLERANCE:
        sys.exit(f"The numbers differ by up to {largest:.1e}, more than {TOLERANCE:g}.")


def tensorflow_version(python):
    """Returns the version of the TensorFlow that `python` has, without importing it."""
    code = (
        "import importlib.metadata as metadata; found = {each.metadata['Name'].lower(): each.version"
        " for each in metadata.distributions()}; print(found.get('tensorflow') or found.get('tensorflow-cpu') or '')"
    )
    asked = subprocess.run([python, "-c", code], capture_output=True, text=True)
    version = asked.stdout.strip()
    if not version:
        sys.exit(asked.stderr or f"{python} has no TensorFlow; run: {python} -m pip install tensorflow")
    return version


def key(script):
    """Returns the script's name in the report and in the file of expected results."""
    return str(script.relative_to(LEGACY).with_suffix(""))


def commands(script, old_python, directory):
    """Returns the commands that run a script on TensorFlow 2.15 and on today's; writes its port to `directory`."""
    new = [sys.executable, "-m", "estimator_train", "run"]
    if script.parent == LEGACY / "tf1":
        return [old_python, ported(script, directory)], [*new, "--tf1", "--replicas", "2", script]
    return [old_python, script], [*new, script]


def ported(script, directory):
    """Writes a script for TensorFlow 1 to `directory`, with its names changed for TensorFlow 2.15; returns the path."""
    path = Path(directory, script.name)
    patch = BY_HAND / script.with_suffix(".patch").name
    subprocess.run(["patch", "--quiet", "--output", path, script, patch], check=True)
    return path


def run(command):
    """Runs a script and returns the JSON that it prints after "results: ", and the seconds it took."""
    start = time.perf_counter()
    done = subprocess.run(command, env=environment() | NO_GPU, cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    lines = [line for line in done.stdout.splitlines() if line.startswith("results: ")]
    if done.returncode or not lines:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(lines[-1].removeprefix("results: ")), seconds


def flat(value, path=()):
    """Flattens nested dicts and lists into a dict of paths to numbers and strings."""
    if not isinstance(value, (dict, list)):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {key: leaf for name, part in items for key, leaf in flat(part, (*path, name)).items()}


def shown(value):
    """Formats a number, a string or a list of them for a table."""
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return value if isinstance(value, str) else f"{value:.6g}"


def compare(old, new):
    """Returns the number of values and their largest difference, relative to max(1, |old value|).

    The difference is infinite if strings differ, or if only one side has a value.
    """
    apart = [math.inf] * len(old.keys() ^ new.keys())
    for path in old.keys() & new.keys():
        if isinstance(old[path], str):
            apart.append(0.0 if old[path] == new[path] else math.inf)
        else:
            apart.append(abs(old[path] - new[path]) / max(1, abs(old[path])))
    return len(apart), max(apart)


if __name__ == "__main__":
    main()
