"""Measures the memory of a step of the 3-D U-Net on the CPU, relative to `estimator_train.memory_estimate`.

    python -m benchmarks.unet3d_memory

It measures how much the resident memory of a fresh process grows in the first step. Convolution kernels need scratch
memory, without oneDNN 27 times their input. So each size is also measured with dense layers, whose kernels need none,
in place of the convolutions; their activations have the same shapes.
"""

import os
import resource
import subprocess
import sys

SIZES = ((64, 8, 1), (64, 8, 2), (96, 8, 1), (64, 16, 1))  # volume, filters, batch size


def main():
    import tabulate

    rows = []
    for size in SIZES:
        for kind in ("dense", "convolution"):
            command = [sys.executable, "-m", "benchmarks.unet3d_memory", kind, *map(str, size)]
            environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            estimated, measured = map(float, done.stdout.split())
            rows.append([*size, kind, estimated, measured, measured / estimated])
    headers = ["volume", "filters", "batch", "layers", "estimated, MB", "measured, MB", "ratio"]
    print(tabulate.tabulate(rows, headers, tablefmt="github", floatfmt=("", "", "", "", ".0f", ".0f", ".1f")))


def measure(kind, volume, filters, batch_size):
    import estimator_train  # noqa: F401, before TensorFlow: it selects Keras and the kernels

    # isort: split
    import tensorflow as tf

    from estimator_train.memory_estimate import estimate
    from examples.unet3d import build_model

    def build(volume):
        model = build_model(volume, filters)
        return _dense(model) if kind == "dense" else model

    def step(model):
        model.train_on_batch(*2 * [tf.zeros([batch_size, *model.input_shape[1:]])])

    step(build(8))  # excludes what TensorFlow allocates once
    model = build(volume)
    (estimated,) = estimate(model, batch_size)
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[1]) * resource.getpagesize()
    step(model)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(estimated.total / 1e6, (peak - before) / 1e6)


def _dense(model):
    """Returns a copy of `model`, compiled likewise, with dense layers in place of the convolutions."""
    import tf_keras as keras

    def clone(layer):
        if type(layer) is not keras.layers.Conv3D:
            return type(layer).from_config(layer.get_config())
        return keras.layers.Dense(layer.filters, layer.activation, use_bias=layer.use_bias, name=layer.name)

    dense = keras.models.clone_model(model, clone_function=clone)
    dense.compile("adam", model.loss)
    return dense


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        measure(sys.argv[1], *map(int, sys.argv[2:]))
