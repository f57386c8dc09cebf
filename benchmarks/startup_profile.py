"""Prints where the time goes from the start of a process to the end of its first step.

    python -m benchmarks.startup_profile

The model, the data and the first step are those of `python -m benchmarks startup`. Each stage is the median of several
fresh processes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import tabulate

from benchmarks.arguments import positive
from benchmarks.runner import ROOT, environment


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=positive, default=5, help="processes that count, after one that does not [5]")
    options = parser.parse_args()
    runs = [_run() for _ in range(1 + options.runs)][1:]
    rows = [(stage, statistics.median(run[stage] for run in runs)) for stage in runs[0]]
    print(
        tabulate.tabulate([*rows, ("all", sum(seconds for _, seconds in rows))], ["stage", "seconds"], floatfmt=".2f")
    )


def _run():
    started = time.time()
    command = [sys.executable, "-m", "benchmarks.startup_profile", "--one", str(started)]
    output = subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def _one(started):
    """Runs the stages in this process and prints their seconds as JSON."""
    seconds, last = {}, started

    def ends(stage):
        nonlocal last
        now = time.time()
        seconds[stage], last = now - last, now

    ends("the Python interpreter")
    import estimator_train as et  # before TensorFlow, as users have it

    # isort: split
    import tf_keras as keras

    ends("import tensorflow and tf_keras")

    class Stages(et.SessionRunHook):
        def begin(self):
            ends("its training copy, the dataset, the trace of the step")

        def before_run(self, run_context):
            ends("the session, the checkpoint of step 0")

        def after_run(self, run_context, run_values):
            ends("the first step, with TensorFlow's graph optimization")

    ends("import estimator_train")
    import tempfile

    from benchmarks.sides import tensorflow_parts as parts

    model = parts.small_cnn(keras)
    ends("the model, built and compiled by the user")
    estimator = et.model_to_estimator(model, model_dir=tempfile.mkdtemp())
    ends("model_to_estimator")
    estimator.train(parts.two_batches, steps=1, hooks=[Stages()])
    print(json.dumps(seconds))


if __name__ == "__main__":
    _one(float(sys.argv[2])) if sys.argv[1:2] == ["--one"] else main()
