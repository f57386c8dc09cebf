"""`python -m benchmarks.gpu`: trains on 1, 2, 4 and more GPUs, compares with others, and prints a Markdown table.

Each line of the table is a training in a separate process; if it fails, the table shows its error. docs/gpu.md explains
the table. `--devices cpu --quick` checks in minutes that every line runs, on two logical CPUs.
"""

import argparse
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import runner, scans
from benchmarks.arguments import folder, positive
from benchmarks.gpu.lines import MOBILENET, VGG16, all_lines
from benchmarks.gpu.table import table

BATCH_SIZES = {VGG16: 32, MOBILENET: 64}  # per replica
IMAGE_SIZE, STEPS, IMAGES = (224, 224), 50, 512
QUICK = {"image_size": (32, 32), "batch_size": 2, "steps": 2}
CPU_DEVICES = 2
MOST_SECONDS = 1200  # per training; replicas that wait for each other would never end


def main():
    options = _parser().parse_args()
    asked = _run(["benchmarks.gpu.machine"], {})
    if asked.returncode:
        sys.exit(asked.stderr)
    machine = _told(asked)
    devices = machine["gpus"] if options.devices == "gpu" else CPU_DEVICES
    if not devices:
        sys.exit("TensorFlow sees no GPU: docs/distribution.md says what to check; --devices cpu --quick needs none")
    lines = [line for line in all_lines(devices) if options.only in line.name]
    if not lines:
        sys.exit(f"--only {options.only}: no line has that in its name; try {VGG16}")
    answers = {}
    with tempfile.TemporaryDirectory() as drawn:
        if not options.data_dir:
            scans.draw(Path(drawn), 16 if options.quick else IMAGES)
        try:
            for turn in range(1, options.rounds + 1):
                for line in lines:
                    key = line.name, line.devices
                    if isinstance(answers.get(key), str):
                        continue  # it would fail again
                    answer = _train(line, options, options.data_dir or drawn)
                    if isinstance(answer, str):
                        answers[key] = told = answer
                    else:
                        answers.setdefault(key, []).append(answer)
                        told = f"{answer['examples_per_second']:.1f} examples/s"
                    print(f"round {turn} of {options.rounds}: {line.name}, {line.devices}: {told}", file=sys.stderr)
        finally:  # also after Ctrl-C
            print(table(lines, answers, options.devices))
            print(f"\n{_circumstances(machine, options)}")


def _train(line, options, data_dir):
    """Runs the training of a line; returns the dict of `training.measure`, or a text that says why it failed."""
    if line.needs_gpu and options.devices == "cpu":
        return "needs a GPU"
    if line.training.side == "torch" and importlib.util.find_spec("torchvision") is None:
        return "needs torch and torchvision"
    sizes = {"image_size": IMAGE_SIZE, "batch_size": BATCH_SIZES[line.training.model], "steps": STEPS}
    if options.quick:
        sizes = QUICK
    devices = {"kind": options.devices, "count": line.devices}
    arguments = json.dumps([line.training._asdict(), devices, data_dir, sizes])
    try:
        done = _run(["benchmarks.gpu.training", arguments], line.environment)
    except subprocess.TimeoutExpired:
        return f"failed: it had not ended after {MOST_SECONDS // 60} minutes"
    if done.returncode:
        return f"failed: {_reason(done)}"
    return _told(done)


def _run(module, environment):
    """Runs a module with its arguments and returns the completed process."""
    return subprocess.run(
        [sys.executable, "-m", *module],
        env=runner.environment() | environment,
        cwd=runner.ROOT,
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
    )


def _told(process):
    """Parses the last line that a process printed; libraries may print others before it."""
    return json.loads(process.stdout.splitlines()[-1])


def _reason(process):
    """Returns the line of a failed process's standard error that says why.

    It is that of memory that ran out, or the first root error of a graph, which others follow, or else the last one.
    """
    lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
    out_of_memory = [line for line in lines if "OOM when allocating" in line]
    of_graph = [line for line in lines if line.startswith("(0) ")]
    reasons = [*out_of_memory, *of_graph, *lines[-1:]]
    return next(iter(reasons), f"exit code {process.returncode}")[:200].replace("|", "\\|")


def _circumstances(machine, options):
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    on = f"{machine['gpus']} x {', '.join(machine['names'])}"
    if options.devices == "cpu":
        on = f"{CPU_DEVICES} logical CPU devices"
    return f"- `{_command(options)}`: {on}; {runner.processor()}, {os.cpu_count()} cores; {versions}"


def _command(options):
    """Returns the command line without paths on this machine."""
    words = ["python", "-m", "benchmarks.gpu"]
    for name, value in vars(options).items():
        if value != _parser().get_default(name):
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else ["FOLDER" if name == "data_dir" else str(value)]
    return shlex.join(words)


def _parser():
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", choices=("gpu", "cpu"), default="gpu", help="all GPUs, or two logical CPUs")
    parser.add_argument("--data-dir", type=folder, metavar="FOLDER", help="class directories [drawn scans]")
    parser.add_argument("--only", default="", metavar="TEXT", help="run only lines whose names contain TEXT")
    parser.add_argument("--rounds", type=positive, default=1, metavar="N", help="rounds; medians are printed")
    parser.add_argument("--quick", action="store_true", help="only check: 32 x 32 images, batches of 2, two steps")
    return parser


if __name__ == "__main__":
    main()
