"""Measures how long training waits for the images of examples/segmentation.py, read in this process or by workers.

    python -m benchmarks.generator_workers

Each step computes a convolution of one pixel and sleeps instead of using a GPU, which leaves the CPU cores to the input
pipeline, as a GPU would.
"""

import argparse
import tempfile
import time
from pathlib import Path

import tabulate
import tf_keras as keras

import estimator_train as et
from examples import segmentation


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image-size", type=int, default=128, help="pixels per side [%(default)s]")
    parser.add_argument("--batch-size", type=int, default=8, help="images per step [%(default)s]")
    parser.add_argument("--step-ms", type=float, default=60, help="how long a step sleeps [%(default)s]")
    parser.add_argument("--steps", type=int, default=100, help="steps of each training [%(default)s]")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="numbers of workers to try [0 1 2]")
    options = parser.parse_args()

    image_size = (options.image_size, options.image_size)
    folder = Path(tempfile.mkdtemp(), "pages")
    segmentation.draw_pages(folder)
    samples = segmentation.list_samples(folder)
    model = keras.Sequential([keras.Input((*image_size, 3)), keras.layers.Conv2D(2, 1, activation="sigmoid")])
    model.compile("sgd", "binary_crossentropy")
    rows = []
    for workers in options.workers:
        timing = et.TimingHook()
        input_fn = segmentation.input_fn_of(samples, image_size, options.batch_size, seed=0, workers=workers)
        hooks = [timing, _Sleep(options.step_ms / 1000)]  # in this order, the step's time includes the sleep
        et.model_to_estimator(model).train(input_fn, hooks=hooks, steps=options.steps)
        about = timing.summary()
        rows.append([workers, 1000 * about["mean_seconds"], about["examples_per_second"], about["input_wait_share"]])
    headers = ["workers", "ms a step", "examples/s", "input wait"]
    print(tabulate.tabulate(rows, headers, floatfmt=("", ".0f", ".1f", ".0%")))


class _Sleep(et.SessionRunHook):
    def __init__(self, seconds):
        self._seconds = seconds

    def before_run(self, run_context):
        time.sleep(self._seconds)


if __name__ == "__main__":
    main()
