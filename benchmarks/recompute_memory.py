"""Measures the memory of training with `recompute` relative to training without, both with and without XLA, on the CPU.

    python -m benchmarks.recompute_memory

It measures how much the resident memory of a fresh process grows while an Estimator trains for two steps. The process
first trains on tiny images, to exclude what TensorFlow and XLA's compiler allocate once. There are two deep
convolutional networks, one with BatchNormalization, which is not recomputed.
"""

import os
import resource
import subprocess
import sys

DEPTH, FILTERS, IMAGE, BATCH = 24, 32, 128, 16
NETWORKS = "convolutions", "with BatchNormalization"


def main():
    import tabulate

    rows = []
    for network in NETWORKS:
        for jit_compile in ("", "jit_compile"):
            without, recompute = (_measured(network, jit_compile, each) for each in ("", "recompute"))
            rows.append([network, jit_compile or "-", without, recompute, recompute / without])
    headers = ["network", "compiled", "without, MB", "recompute, MB", "ratio"]
    print(tabulate.tabulate(rows, headers, tablefmt="github", floatfmt=("", "", ".0f", ".0f", ".2f")))


def _measured(network, *settings):
    command = [sys.executable, "-m", "benchmarks.recompute_memory", network, *settings]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure(network, *settings):
    import estimator_train as et  # before TensorFlow: it selects Keras and the kernels

    # isort: split
    import tensorflow as tf

    config = et.RunConfig(**{setting: True for setting in settings if setting}, save_summary_steps=None)

    def train(image):
        batch = tf.zeros([BATCH, image, image, FILTERS]), tf.zeros([BATCH, 1])
        estimator = et.model_to_estimator(_network(image, network == "with BatchNormalization"), config=config)
        estimator.train(lambda: tf.data.Dataset.from_tensors(batch).repeat(), steps=2)

    train(8)
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[1]) * resource.getpagesize()
    train(IMAGE)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print((peak - before) / 1e6)


def _network(image, normalized):
    import tf_keras as keras

    layers = [keras.Input((image, image, FILTERS))]
    for _ in range(DEPTH):
        layers.append(keras.layers.Conv2D(FILTERS, 3, padding="same", activation=None if normalized else "relu"))
        if normalized:
            layers += [keras.layers.BatchNormalization(), keras.layers.ReLU()]
    network = keras.Sequential([*layers, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)])
    network.compile("sgd", "mse")
    return network


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        measure(*sys.argv[1:])
