"""Runs the programs in examples/, and the command on its drawn scans, on one and on two CPU replicas.

    python -m benchmarks.programs [--write]

It prints what each reaches, and `--write` puts the table into docs/distribution.md. Each training is a process with the
same number of epochs on one replica and on two; with two, a step has twice the examples, and there are half as many.
"""

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import tensorflow as tf
from tabulate import tabulate

from benchmarks.runner import ROOT, environment, processor
from estimator_train._engine.events import read_eval_metrics

PAGE = ROOT / "docs" / "distribution.md"
BEGIN, END = "<!-- programs: begin -->\n", "<!-- programs: end -->\n"
REPLICAS = (1, 2)
# Program and flags, epochs, and the metric to show besides the loss. unet3d draws its volumes and has no epochs.
RUNS = [
    ("-m estimator_train --dataset synthetic_oct", 12, "accuracy"),
    ("examples/cats_vs_dogs.py --image-size 96 --batch-size 16", 5, "accuracy"),
    ("examples/segmentation.py --image-size 128", 4, "dice_coefficient"),
    ("examples/cyclegan.py --image-size 32 --filters 16", 4, "G/cycle"),
    ("examples/unet3d.py --volume 16", None, "dice_coefficient"),
]
VOLUMES = 200


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    write = parser.parse_args().write
    rows = [row(flags, epochs, metric, replicas) for flags, epochs, metric in RUNS for replicas in REPLICAS]
    headers = ["`python …`", "replicas", "examples/s", "s an epoch", "loss", "metric"]
    table = tabulate(rows, headers, tablefmt="github", disable_numparse=True)
    cores = f"{os.cpu_count()} cores of {processor()}"
    versions = f"TensorFlow {tf.__version__} and Python {platform.python_version()}"
    text = f"\n{table}\n\nMeasured by `python -m benchmarks.programs --write` on {cores}, with {versions}.\n\n"
    print(text)
    if write:
        page = PAGE.read_text()
        between = re.compile(f"(?<={re.escape(BEGIN)}).*(?={re.escape(END)})", re.DOTALL)
        PAGE.write_text(between.sub(lambda _: text, page))


def row(flags, epochs, metric, replicas):
    """Trains once; returns a row of the table."""
    length = f"--epochs {epochs}" if epochs else f"--max-steps {VOLUMES // replicas}"
    command = shlex.split(f"{flags} {length} --replicas {replicas}")
    with tempfile.TemporaryDirectory() as folder:
        model_dir = Path(folder, "run")
        print("python", *command, file=sys.stderr, flush=True)
        full = [sys.executable, *command, "--model-dir", model_dir]
        done = subprocess.run(full, env=environment(), cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{shlex.join(map(str, full))} exited with {done.returncode}:\n{done.stderr[-3000:]}")
        (timing_file,) = model_dir.rglob("timing.json")
        timing = json.loads(timing_file.read_text())
        evaluations = read_eval_metrics(str(timing_file.parent / "eval" / "*.tfevents.*"))
    last = evaluations[max(evaluations)]
    steps = timing["steps"] + timing["warmup_steps"]
    epoch = f"{steps / epochs / timing['steps_per_second']:.1f}" if epochs else ""
    numbers = [f"{timing['examples_per_second']:.1f}", epoch, f"{last['loss']:.4f}", f"{metric} {last[metric]:.4f}"]
    return [f"`{flags} {length}`", replicas, *numbers]


if __name__ == "__main__":
    main()
