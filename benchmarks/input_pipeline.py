"""How fast `image_files` gives batches, beside the input_fn of the blog post on TensorFlow 2.15: ratios from one run.

    python -m benchmarks.input_pipeline [--tf215-python PYTHON]

Both sides read the same drawn OCT scans, grayscale JPEGs of 512 x 496 and about 50 kB, in processes of their own that
stay alive and run an epoch when told, in turn (A B A B …), a warm-up first, which also traces and fills caches. Writes
benchmarks/results/input_pipeline.json. TensorFlow 2.15 gets a virtual environment in the platform's cache folder, made
by the first run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "input_pipeline.json"
CLASSES = ("CNV", "DME", "DRUSEN", "NORMAL")
IMAGES, QUALITY = 1024, 70
PAIRS = 7

# What of ours is run against the blog's epoch. Of a cache this is not the epoch that fills it.
ROWS = {
    "exact": "an epoch, exact",
    "fast": "an epoch, fast=True",
    "memory": 'an epoch, cache="memory"',
    "exact narrow": "an epoch, exact, one channel",
    "memory narrow": 'an epoch, cache="memory", one channel',
}


def main():
    parser = argparse.ArgumentParser(description="Compares image_files with the blog's input_fn on TensorFlow 2.15.")
    parser.add_argument("--tf215-python", help="a Python that has TensorFlow 2.15; none: one is set up")
    args = parser.parse_args()
    if args.tf215_python is None:
        from benchmarks.compare_tf215 import set_up_tf215

        args.tf215_python = set_up_tf215()
    with tempfile.TemporaryDirectory() as folder:
        num_bytes = draw(Path(folder))
        theirs, ours = (start(python, folder) for python in (args.tf215_python, sys.executable))
        rounds = [
            {name: run(theirs if name == "blog" else ours, name) for name in ("blog", *ROWS)} for _ in range(PAIRS + 1)
        ][1:]
        versions = {side: run(worker, "versions") for side, worker in (("blog", theirs), ("ours", ours))}
        for worker in (theirs, ours):
            worker.stdin.close()
            worker.wait(60)
    rows = [row(name, rounds) for name in ROWS]
    for each in rows:
        ratios = each["ratios"]
        print(
            f"{each['name']}: {each['ratio']:.2f} times as fast, {min(ratios):.2f} to {max(ratios):.2f} "
            f"in {PAIRS} pairs ({' '.join(f'{ratio:.2f}' for ratio in ratios)}), "
            f"with {each['cpu_ratio']:.2f} times less processor time; "
            f"{IMAGES / each['ours_s']:.0f} images/s, the blog's {IMAGES / each['blog_s']:.0f}"
        )
    facts = {
        "benchmark": "input_pipeline",
        "versions": versions,
        "cpu": processor(),
        "cores": os.cpu_count(),
        "images": IMAGES,
        "bytes_per_image": round(num_bytes / IMAGES),
        "rows": rows,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(facts, indent=1) + "\n")


def row(name, rounds):
    """Seconds and ratios of a row; a ratio is the blog's seconds over ours."""
    pairs = [(each["blog"], each[name]) for each in rounds]
    return {
        "name": ROWS[name],
        "ratio": statistics.median(blog["wall"] / ours["wall"] for blog, ours in pairs),
        "ratios": [blog["wall"] / ours["wall"] for blog, ours in pairs],
        "cpu_ratio": statistics.median(blog["cpu"] / ours["cpu"] for blog, ours in pairs),
        "blog_s": statistics.median(blog["wall"] for blog, _ in pairs),
        "ours_s": statistics.median(ours["wall"] for _, ours in pairs),
        "pairs": pairs,
    }


def draw(folder):
    """Draws the files; returns how many bytes they have."""
    import numpy as np
    from PIL import Image

    from estimator_train.datasets.synthetic_oct import draw_image

    num_bytes = 0
    for index in range(IMAGES):
        name = CLASSES[index % len(CLASSES)]
        path = folder / name / f"{index}.jpeg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(draw_image(name, np.random.default_rng(index))).save(path, quality=QUALITY)
        num_bytes += path.stat().st_size
    return num_bytes


def start(python, folder):
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    environment |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
    command = [python, __file__, folder]
    return subprocess.Popen(
        command, env=environment | {"PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def run(worker, name):
    print(name, file=worker.stdin, flush=True)
    answer = worker.stdout.readline()
    if not answer:
        sys.exit(f"the process that ran {name!r} ended; its error is above")
    return json.loads(answer)


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        import platform

        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown")


def work(folder):
    """Answers lines on stdin with a line of JSON on stdout: the seconds of an epoch, of the clock and of the cores."""
    pattern, datasets = os.path.join(folder, "*", "*.jpeg"), {}
    for line in sys.stdin:
        name = line.strip()
        if name == "versions":
            print(json.dumps(versions()), flush=True)
            continue
        if name not in datasets:
            datasets[name] = blog(pattern) if name == "blog" else ours(pattern, *name.split())
        start, cpu_start = time.perf_counter(), time.process_time()
        count = sum(images.shape[0] for images, _ in datasets[name])
        seconds = {"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu_start}
        assert count == IMAGES, count
        print(json.dumps(seconds), flush=True)


def versions():
    import importlib.metadata
    import platform

    return {"tensorflow": importlib.metadata.version("tensorflow"), "python": platform.python_version()}


def ours(pattern, mode, width=None):
    from estimator_train import input_fns

    options = {"exact": {}, "fast": {"fast": True}, "memory": {"cache": "memory"}}[mode]
    input_fn = input_fns.image_files(pattern, CLASSES, shuffle=True, num_epochs=1, **options)
    return input_fn.narrow() if width == "narrow" else input_fn()


def blog(pattern, image_size=(224, 224), batch_size=64, buffer_size=4096):
    """What the post "Multi-GPU training with Estimators, tf.keras and tf.data" does, with the names of TensorFlow 2."""
    import tensorflow as tf

    initializer = tf.lookup.KeyValueTensorInitializer(CLASSES, range(len(CLASSES)), tf.string, tf.int64)
    index_of = tf.lookup.StaticHashTable(initializer, -1)

    def parse(path):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), image_size)
        label = index_of.lookup(tf.strings.split([path], os.sep).values[-2])
        return image, tf.one_hot(label, len(CLASSES))

    files = tf.data.Dataset.list_files(pattern, shuffle=True).shuffle(buffer_size).repeat(1)
    batches = files.apply(tf.data.experimental.map_and_batch(parse, batch_size, num_parallel_calls=os.cpu_count()))
    return batches.prefetch(tf.data.AUTOTUNE)


if __name__ == "__main__":
    if len(sys.argv) == 2 and os.path.isdir(sys.argv[1]):
        work(sys.argv[1])
    else:
        main()
