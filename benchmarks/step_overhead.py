"""What a step of the Estimator's loop costs over a bare tf.function of the same model: ratios from one run.

    python -m benchmarks.step_overhead

Both sides train copies of one small CNN on the same batches, in turn (A B A B …), a warm-up first.
"""

import os
import statistics
import tempfile
import time

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
import tf_keras as keras

import estimator_train as et

PAIRS, STEPS, BATCH = 9, 500, 32


def build():
    model = keras.Sequential(
        [
            keras.layers.Conv2D(4, 3, strides=3, activation="relu", input_shape=(28, 28, 1)),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    return model


def data():
    batch = tf.random.normal((BATCH, 28, 28, 1)), tf.one_hot(tf.range(BATCH) % 10, 10)
    return tf.data.Dataset.from_tensors(batch).repeat()


def bare(steps_per_call):
    """Seconds of STEPS steps, by a tf.function that does `steps_per_call` of `train_step`."""
    model = build()

    @tf.function
    def run(iterator):
        for _ in tf.range(steps_per_call):
            model.train_step(next(iterator))

    iterator = iter(data())
    run(iterator)

    def measure():
        start = time.perf_counter()
        for _ in range(STEPS // steps_per_call):
            run(iterator)
        return time.perf_counter() - start

    return measure


def estimator(steps_per_call):
    """Seconds of STEPS steps in `Estimator.train`, with its default hooks, as TimingHook counts them."""
    config = et.RunConfig(model_dir=tempfile.mkdtemp(), steps_per_loop=steps_per_call)
    estimator = et.model_to_estimator(build(), config=config)

    class Clock(et.SessionRunHook):
        """Wall time from the end of the first call, which warms up, to the end of the last."""

        def __init__(self):
            self.ends = []

        def after_run(self, run_context, run_values):
            self.ends.append(time.perf_counter())

    def measure():
        clock = Clock()
        estimator.train(data, hooks=[clock], steps=STEPS + steps_per_call)
        return clock.ends[-1] - clock.ends[0]

    return measure


def main():
    for steps_per_call in (1, 50):
        sides = {"bare tf.function": bare(steps_per_call), "Estimator.train": estimator(steps_per_call)}
        for measure in sides.values():
            measure()
        seconds = {name: [] for name in sides}
        for _ in range(PAIRS):
            for name, measure in sides.items():
                seconds[name].append(measure())
        theirs, ours = seconds.values()
        ratios = sorted(one / other for one, other in zip(ours, theirs, strict=True))
        extra = statistics.median(one - other for one, other in zip(ours, theirs, strict=True)) / STEPS
        print(
            f"steps_per_loop={steps_per_call}: bare {statistics.median(theirs) / STEPS * 1e3:.3f} ms a step, "
            f"Estimator.train {statistics.median(ours) / STEPS * 1e3:.3f} ms, {extra * 1e3:+.3f} ms a step; "
            f"ratios of {PAIRS} pairs: median {statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}"
        )


if __name__ == "__main__":
    main()
