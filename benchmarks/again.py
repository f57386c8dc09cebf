"""How much faster a second evaluate or predict of one Estimator is than the first: ratios from one run.

    python -m benchmarks.again

Each pair is a new Estimator of a small model, trained for a few steps. The first call copies the model, traces, and
reads the checkpoint; the second does not.
"""

import statistics
import tempfile
import time

import estimator_train as et
from benchmarks.step_overhead import build, data

PAIRS = 7


def main():
    ratios = {"evaluate": [], "predict": []}
    two_batches = data().take(2)
    for pair in range(PAIRS + 1):  # one to warm up
        for verb in ratios:
            estimator = et.model_to_estimator(build(), config=et.RunConfig(model_dir=tempfile.mkdtemp()))
            estimator.train(data, steps=2)
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
