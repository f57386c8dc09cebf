"""Peak memory of a training step with `recompute`, with and without XLA, over that without: on the CPU.

    python -m benchmarks.recompute_memory

Measured is how far the resident memory of a fresh process rises while an Estimator trains a plain deep convolutional
network for two steps. The process has trained on tiny images before, so that the memory that TensorFlow takes once, and
XLA's compiler, are in use already.
"""

import os
import resource
import subprocess
import sys

DEPTH, FILTERS, IMAGE, BATCH = 24, 32, 128, 16
SETTINGS = {
    "plain": {},
    "recompute": {"recompute": True},
    "jit_compile": {"jit_compile": True},
    "jit_compile, recompute": {"jit_compile": True, "recompute": True},
}


def main():
    import tabulate

    measured = {}
    for setting in SETTINGS:
        command = [sys.executable, "-m", "benchmarks.recompute_memory", setting]
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        measured[setting] = tuple(map(float, done.stdout.split()))
    rows = []
    for setting, (size, seconds) in measured.items():
        without = measured["jit_compile" if "jit_compile" in setting else "plain"]
        rows.append([setting, size, size / without[0], seconds, seconds / without[1]])
    headers = ["setting", "peak, MB", "ratio", "step, s", "ratio"]
    print(tabulate.tabulate(rows, headers, tablefmt="github", floatfmt=("", ".0f", ".2f", ".1f", ".2f")))


def measure(setting):
    import estimator_train as et  # it chooses Keras and the kernels that TensorFlow has

    # isort: split
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    config = et.RunConfig(**SETTINGS[setting], save_summary_steps=None)

    def train(image):
        estimator = et.model_to_estimator(_network(image), config=config)
        batch = tf.zeros([BATCH, image, image, FILTERS]), tf.zeros([BATCH, 1])
        steps = _StepTimes(et)
        estimator.train(lambda: tf.data.Dataset.from_tensors(batch).repeat(), steps=3, hooks=[steps])
        return steps.seconds

    train(8)
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[1]) * resource.getpagesize()
    seconds = train(IMAGE)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print((peak - before) / 1e6, seconds)


def _StepTimes(et):
    import time

    class StepTimes(et.SessionRunHook):
        seconds = None

        def before_run(self, run_context):
            self.start = time.perf_counter()

        def after_run(self, run_context, run_values):
            self.seconds = time.perf_counter() - self.start

    return StepTimes()


def _network(image):
    import tf_keras as keras

    convolutions = [keras.layers.Conv2D(FILTERS, 3, padding="same", activation="relu") for _ in range(DEPTH)]
    ends = keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)
    network = keras.Sequential([keras.Input((image, image, FILTERS)), *convolutions, *ends])
    network.compile("sgd", "mse")
    return network


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        measure(sys.argv[1])
