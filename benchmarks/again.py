"""How much faster a second evaluate or predict of one Estimator is than the first: ratios from one run.

    python -m benchmarks.again

Each pair is a new Estimator of small_cnn on 32 x 32 images, trained for two steps. The first call copies the model,
traces, and reads the checkpoint; the second does not.
"""

import statistics
import tempfile
import time

import tensorflow as tf

import estimator_train as et
from estimator_train import models

PAIRS = 7


def main():
    ratios = {"evaluate": [], "predict": []}
    batch = tf.random.uniform((4, 32, 32, 3)), tf.one_hot(tf.range(4), 4)
    two_batches = tf.data.Dataset.from_tensors(batch).repeat(2)
    for pair in range(PAIRS + 1):  # one to warm up
        for verb in ratios:
            model = models.build_model("small_cnn", image_size=(32, 32), num_classes=4)
            estimator = et.model_to_estimator(model, config=et.RunConfig(model_dir=tempfile.mkdtemp()))
            estimator.train(lambda: two_batches, steps=2)
            call = getattr(estimator, verb)
            first, second = [_seconds(call, lambda: two_batches) for _ in range(2)]
            if pair:
                ratios[verb].append(first / second)
    for verb, of_verb in ratios.items():
        print(
            f"{verb}: the first call takes {statistics.median(of_verb):.1f} times the second, "
            f"{min(of_verb):.1f} to {max(of_verb):.1f} in {PAIRS} pairs"
        )


def _seconds(verb, input_fn):
    start = time.perf_counter()
    results = verb(input_fn)
    if not isinstance(results, dict):
        list(results)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
