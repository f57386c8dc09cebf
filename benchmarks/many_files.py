"""Measures how the cost of image files grows with their number, for a thousand to a million JPEGs in ten classes.

    python -m benchmarks.many_files

Each number of files is measured in a separate process, for `image_files` with a pattern and for `--dataset images`: the
time to list the files, the time from there to the first batch, and the time per image in the first 4,096 of a shuffled
epoch; also how much the process's memory grows per file, at the end and at its peak. No epoch is read completely; its
time is the time per image times the number of files. The process warms up with some images first, and the files are in
the page cache. They are links to a few images, and are removed at the end.

A second table is about the last of `--workers` workers, which lists all files, too, but reads only its share: the time
to list, from there to its first batch, and to the end of its epoch. This process is that worker, and there is no other.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tabulate
from PIL import Image

from benchmarks.runner import environment
from benchmarks.sides.serve import peak_bytes

CLASSES, LINKS, READ = 10, 1000, 4096
BATCH, SIZE = 64, (32, 32)
WAYS = ("image_files", "--dataset images")
HEADERS = ["files", "by", "listed, s", "first batch, s", "image of an epoch, µs", "bytes a file", "at most"]
OF_SHARE = ["files", "workers", "images of the last", "listed, s", "first batch, s", "last batch, s"]
LABELS = [f"class-{index}" for index in range(CLASSES)]


def main():
    parser = argparse.ArgumentParser(
        "python -m benchmarks.many_files", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = [1000, 10_000, 100_000, 1_000_000]
    parser.add_argument("--files", type=int, nargs="+", default=numbers, help="numbers of files [1000 to 1000000]")
    parser.add_argument("--workers", type=int, nargs="+", default=[64], help="numbers of workers [64]")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)  # folder and way, in a row's process
    parser.add_argument("--share", nargs=2, help=argparse.SUPPRESS)  # folder and workers
    options = parser.parse_args()
    if options.measure or options.share:
        json.dump(measure(*options.measure) if options.measure else share(*options.share), sys.stdout)
        return
    rows, shares, made = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for number in sorted(options.files):
            make(Path(folder), range(made, number))
            made = number
            for way in WAYS:
                rows.append([number, way, *_in_process("--measure", folder, way)])
        for workers in options.workers:
            shares.append([number, workers, *_in_process("--share", folder, str(workers))])
    print(tabulate.tabulate(rows, HEADERS, floatfmt=("", "", ".2f", ".2f", ".0f", ".0f", ".0f"), intfmt=","))
    print()
    print(tabulate.tabulate(shares, OF_SHARE, floatfmt=".2f", intfmt=","))
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end")


def _in_process(*arguments):
    command = [sys.executable, "-m", "benchmarks.many_files", *arguments]
    done = subprocess.run(command, env=environment(), check=True, stdout=subprocess.PIPE)
    print(*arguments, done.stdout.decode(), file=sys.stderr)
    return json.loads(done.stdout)


def make(folder, numbers):
    """Creates the files with these numbers: images with `LINKS` hard links each, as many as file systems allow."""
    for number in numbers:
        path = folder / f"class-{number % CLASSES}" / f"scan-of-a-patient-{number}.jpeg"
        if number < CLASSES:
            path.parent.mkdir()
        if number % LINKS == 0:
            original = path
            Image.fromarray(np.random.default_rng(number).integers(0, 255, (*SIZE, 3), np.uint8)).save(path)
        else:
            os.link(original, path)


def measure(folder, way):
    """Returns the columns of a row, from "listed, s" on."""
    from estimator_train import input_fns
    from estimator_train.app import datasets

    options = {"image_size": SIZE, "batch_size": BATCH, "num_epochs": None}

    def list_files():
        if way == "image_files":
            return input_fns.image_files(f"{folder}/*/*.jpeg", LABELS, shuffle=True, **options)
        return datasets.open_dataset("images", folder).train_input_fn(**options)

    few = [f"{folder}/class-{number % CLASSES}/scan-of-a-patient-{number}.jpeg" for number in range(BATCH)]
    for _ in input_fns.image_files(few, LABELS, **options)().take(READ // BATCH):
        pass
    gc.collect()
    before, peak_before = _resident_bytes(), peak_bytes()
    seconds, give_up = [], time.perf_counter() + 5
    while len(seconds) < 5 and time.perf_counter() < give_up:
        start = time.perf_counter()
        input_fn = list_files()
        listed = time.perf_counter()
        iterator = iter(input_fn())
        next(iterator)
        first_batch = time.perf_counter()
        if not seconds:
            gc.collect()
            kept, most = _resident_bytes() - before, peak_bytes() - peak_before
        for _ in range(READ // BATCH):
            next(iterator)
        end = time.perf_counter()
        seconds.append((listed - start, first_batch - listed, (end - first_batch) / READ * 1e6))
        number = len(input_fn.paths)
        del iterator, input_fn
    return [*map(statistics.median, zip(*seconds, strict=True)), kept / number, most / number]


def share(folder, workers):
    """Returns the columns of the last worker's row, from "images of the last" on."""
    import tensorflow as tf

    from estimator_train import input_fns

    context = tf.distribute.InputContext(int(workers), int(workers) - 1, int(workers))
    start = time.perf_counter()
    pattern, options = f"{folder}/*/*.jpeg", {"image_size": SIZE, "batch_size": BATCH, "num_epochs": 1}
    input_fn = input_fns.image_files(pattern, LABELS, shuffle=True, **options)
    listed = time.perf_counter()
    images, first = 0, None
    for batch, _ in input_fn.host_batches(context):
        first = first or time.perf_counter()
        images += len(batch)
    return images, listed - start, first - listed, time.perf_counter() - listed


def _resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
