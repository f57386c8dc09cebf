"""Creates fifty Estimators in one process and prints what each leaves behind, for ours and for TensorFlow 2.15's.

    python -m benchmarks.new_estimators

Each is created in its own directory, trained, evaluated and used for predictions; then the process's memory, threads
and open files are counted. Growth counts from the fifth on.
"""

import json
import subprocess
import sys

from benchmarks import peers

NUMBER, SETTLED = 50, 5

_SCRIPT = """
import gc, json, os, resource, sys, tempfile
if sys.argv[1] == "ours":
    import estimator_train.install
import numpy as np
import tensorflow as tf

x = np.linspace(-1, 1, 64, dtype="float32").reshape(16, 4)


def input_fn():
    return tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).batch(8)


samples = []
for _ in range(int(sys.argv[2])):
    tf.keras.backend.clear_session()
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(4,)), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    estimator = tf.keras.estimator.model_to_estimator(model, model_dir=tempfile.mkdtemp())
    estimator.train(input_fn)
    estimator.evaluate(input_fn)
    assert len(list(estimator.predict(input_fn))) == 16
    gc.collect()
    memory = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
    samples.append((memory / 1e6, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))))
print(json.dumps(samples))
"""


def main():
    import tabulate

    rows = []
    for side, peer in (("estimator_train", "ours"), ("tf.estimator 2.15", "tf215")):
        command = [peers.set_up(peer), "-c", _SCRIPT, peer, str(NUMBER)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        samples = json.loads(done.stdout.splitlines()[-1])
        grown = [
            (last - first) / (NUMBER - SETTLED) for first, last in zip(samples[SETTLED - 1], samples[-1], strict=True)
        ]
        rows.append([side, *grown, samples[-1][0]])
    headers = ["an Estimator more takes", "MB", "threads", "files", "memory at the end, MB"]
    print(tabulate.tabulate(rows, headers, tablefmt="github", floatfmt=("", ".2f", ".2f", ".2f", ".0f")))


if __name__ == "__main__":
    sys.exit(main())
