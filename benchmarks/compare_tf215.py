"""Checks that the scripts in examples/legacy give the same numbers as on TensorFlow 2.15's own tf.estimator.

    python -m benchmarks.compare_tf215 [--tf215-python PYTHON] [--write-expected]

The scripts in examples/legacy/tf1 run with --tf1 and --replicas 2. TensorFlow 2.15 has no tf.contrib, so it runs them
with the patches in benchmarks/tf1_by_hand, which update their names for 2.15.

It writes docs/compare_tf215.md with the differences that `estimator_train verify` finds, the times of both, and their
results in benchmarks/behaviour.py. Both sides run on the CPU, alternately (A B A B …). TensorFlow 2.15 runs in a
virtual environment that the first run creates in the platform's cache directory.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import tensorflow as tf
from tabulate import tabulate

from benchmarks import peers
from benchmarks.arguments import positive
from benchmarks.runner import environment
from estimator_train.compat import verify

ROOT = Path(__file__).resolve().parents[1]
LEGACY, BY_HAND = ROOT / "examples" / "legacy", ROOT / "benchmarks" / "tf1_by_hand"
SCRIPTS = [*sorted(LEGACY.glob("*.py")), *sorted(LEGACY.glob("tf1/*.py"))]
BEHAVIOUR = ROOT / "benchmarks" / "behaviour.py"
REPORT = ROOT / "docs" / "compare_tf215.md"
EXPECTED = ROOT / "tests" / "data" / "tf215" / "results.json"
TOLERANCE = 1e-5

NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}  # GPUs sum in a different order

TEXT = """# tf.estimator's numbers, on today's TensorFlow

Written by `python -m benchmarks.compare_tf215`.

Each script of [examples/legacy](../examples/legacy) ran unmodified on TensorFlow {old} with its own tf.estimator
(`python script.py`) and on TensorFlow {new} (`estimator_train run script.py`), from the same initial values and data.
The scripts in `tf1` are written for TensorFlow 1. They ran unmodified on TensorFlow {new} (`estimator_train run --tf1
--replicas 2 script.py`); TensorFlow {old} ran them with the patches in
`benchmarks/tf1_by_hand`, which change names by hand.
The table compares all that [verify](migrating.md#the-same-results-as-before) finds: checkpoints, scalars in event
files, what is printed, and predictions of exports. Differences are relative to the old value, or absolute if that is
below 1; up to {tolerance:g} is allowed. Seconds are for the whole process, including TensorFlow's start:
medians over {pairs} pairs of runs, in turn, on {cores} CPU cores. The ratio is new over old: the median of the pairs,
with the lowest and the highest.

{table}

Names that only one side has are those of the patches, which compute the same under other names.

## Behaviour that programs rely on

The functions in [benchmarks/behaviour.py](../benchmarks/behaviour.py) define each case; numbers have six digits.

{behaviour}
"""


def main():
    parser = argparse.ArgumentParser(description="Compares the scripts of examples/legacy with TensorFlow 2.15.")
    parser.add_argument("--tf215-python", help="a Python with TensorFlow 2.15 [set up by default]")
    parser.add_argument("--pairs", type=positive, default=3, help="pairs of runs of each script [%(default)s]")
    parser.add_argument("--write-expected", action="store_true", help=f"also write {EXPECTED.relative_to(ROOT)}")
    args = parser.parse_args()
    old_python = args.tf215_python or peers.set_up("tf215")

    versions = {"old": verify.tensorflow_version(old_python), "new": tf.__version__}
    expected, rows, largest = {"tensorflow": versions["old"]}, [], 0.0
    for script in SCRIPTS:
        with tempfile.TemporaryDirectory() as directory:
            pairs = [run_both(script, old_python, Path(directory, str(pair))) for pair in range(args.pairs)]
            comparison, not_compared = verify.compare_runs(*pairs[0])
        expected[key(script)] = printed(pairs[0][0])
        only = [*comparison.only_old, *comparison.only_new]
        if only and not is_ported(script):
            sys.exit(f"Only one side of {script} has {', '.join(map(str, only))}.")
        difference = max(each.difference for each in comparison.compared)
        largest = max(largest, difference)
        seconds = [statistics.median(pair[side].seconds for pair in pairs) for side in (0, 1)]
        ratios = sorted(new.seconds / old.seconds for old, new in pairs)
        ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        values = sum(each.values for each in comparison.compared)
        seconds = [f"{each:.1f}" for each in seconds]
        rows.append([f"{key(script)}.py", values, f"{difference:.1e}", len(only), *seconds, ratio])
        print(rows[-1], *not_compared, file=sys.stderr, sep="\n  ")

    headers = [
        "script",
        "values",
        "largest difference",
        "only one side",
        *(f"s, {version}" for version in versions.values()),
        "ratio",
    ]
    table = tabulate(rows, headers, tablefmt="github", disable_numparse=True)
    print(table)
    with tempfile.TemporaryDirectory() as directory:
        of_both = list(map(printed, run_both(BEHAVIOUR, old_python, Path(directory))))
    largest = max(largest, verify.compare(*map(flat, of_both)).largest)
    rows = [[name.replace("_", " "), *(shown(values[name]) for values in of_both)] for name in of_both[0]]
    behaviour = tabulate(rows, ["behaviour", *versions.values()], tablefmt="github", disable_numparse=True)
    print(behaviour)
    REPORT.parent.mkdir(exist_ok=True)
    settings = {"tolerance": TOLERANCE, "pairs": args.pairs, "cores": os.cpu_count()}
    REPORT.write_text(TEXT.format(**versions, **settings, table=table, behaviour=behaviour))
    if args.write_expected:
        EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")
    if largest > TOLERANCE:
        sys.exit(f"The numbers differ by up to {largest:.1e}, more than {TOLERANCE:g}.")


def key(script):
    """Returns the script's name in the report and in the file of expected results."""
    return str(script.relative_to(LEGACY).with_suffix(""))


def run_both(script, old_python, directory):
    """Returns the runs of a script on TensorFlow 2.15 and on today's."""
    old, flags = script, []
    directory.mkdir(exist_ok=True)
    if is_ported(script):
        old, flags = ported(script, directory), ["--tf1", "--replicas", "2"]
    variables = environment() | NO_GPU
    runs = (
        verify.run(old_python, [old], directory / "old", environment=variables),
        verify.run(
            sys.executable, ["-m", "estimator_train", "run", *flags, script], directory / "new", environment=variables
        ),
    )
    for each in runs:
        if each.code:
            sys.exit(f"{script} exited with {each.code}:\n{each.errors[-2000:]}")
    return runs


def is_ported(script):
    """Returns whether TensorFlow 2.15 runs a script in a port by hand."""
    return script.parent == LEGACY / "tf1"


def ported(script, directory):
    """Writes a script for TensorFlow 1 to `directory`, with its names changed for TensorFlow 2.15; returns the path."""
    path = Path(directory, script.name)
    patch = BY_HAND / script.with_suffix(".patch").name
    subprocess.run(["patch", "--quiet", "--output", path, script, patch], check=True)
    return path


def printed(run):
    """Returns the JSON that a script has printed after "results: "."""
    (line,) = [line for line in run.output.splitlines() if line.startswith("results: ")]
    return json.loads(line.removeprefix("results: "))


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


if __name__ == "__main__":
    main()
