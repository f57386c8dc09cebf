"""CycleGAN learns to turn images of one kind into another kind, and back, from unpaired images.

The data is in directories trainA, trainB, testA and testB, like the datasets of the paper's authors; A is the paper's
X, B is its Y. Each epoch trains and evaluates the same Estimator, which continues from its last checkpoint.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf
import tf_keras as keras
import tqdm

from estimator_train._engine import checkpoints
from estimator_train.app.datasets import tfds
from estimator_train.app.models.cyclegan import build_cyclegan
from estimator_train.app.report.image_grid import write_image_grid
from estimator_train.hooks import ProgressHook
from estimator_train.input_fns import image_files
from estimator_train.keras_estimator import model_to_estimator
from estimator_train.run_config import RunConfig

log = tf.get_logger()

PARTS = ("trainA", "trainB", "testA", "testB")
DRAWN = {"trainA": 96, "trainB": 96, "testA": 16, "testB": 16}
GRID_ROWS = 4

_SUFFIXES = (".jpg", ".jpeg", ".png")


def train(
    model_dir: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    image_size: tuple[int, int] = (64, 64),
    filters: int = 32,
    batch_size: int = 1,
    epochs: int = 10,
    max_steps: int | None = None,
    grid_epochs: int = 1,
    seed: int = 0,
    strategy: tf.distribute.Strategy | None = None,
    hooks: Iterable[tf.compat.v1.train.SessionRunHook] = (),
) -> dict[str, Any]:
    """Trains in `model_dir`, evaluates after each epoch, and returns the last metrics, described in `CycleGAN`.

    An interrupted run continues where it stopped, even within an epoch, with the same data as without interruption.

    ::

        metrics = cyclegan.train("runs/cyclegan", data_dir="apple2orange", image_size=(256, 256), filters=64)

    Args:
      model_dir: directory for checkpoints and events; images/cycle-<step>.png shows x, G(x) and F(G(x)) for test
        images.
      data_dir: a directory with trainA, trainB, testA and testB; tfds:cycle_gan/<name>; or None for drawn apples and
        oranges.
      image_size: (height, width) to resize images to; multiples of 4.
      filters: filters in the first convolution of each network; the paper uses 64.
      batch_size: pairs per step on each replica.
      epochs: passes over the pairs; there are as many as images in the smaller set.
      max_steps: global step to stop at if it comes before the end of the last epoch, or None.
      grid_epochs: epochs between two image grids.
      seed: seed for the initial weights, the order of the images and their flips.
      strategy: a `tf.distribute.Strategy`; None trains on one device.
      hooks: `SessionRunHook`s for the training of each epoch; with a `ProgressHook` among them, evaluations also show a
        progress bar, and each epoch prints a line.

    Raises:
      FileNotFoundError: `data_dir` or one of its subdirectories is missing.
      ValueError: a directory has no images, there are fewer pairs than a step takes, or `image_size` is invalid.
      tf.errors.InvalidArgumentError: a file cannot be decoded; the message names it.
    """
    keras.utils.set_random_seed(seed)
    config = RunConfig(model_dir, tf_random_seed=seed, train_distribute=strategy, eval_distribute=strategy)
    estimator = model_to_estimator(lambda: build_cyclegan(image_size, filters), config=config)
    images = open_images(data_dir, image_size)
    pairs, tests = (number_of_pairs(images, kind) for kind in ("train", "test"))
    replicas = strategy.num_replicas_in_sync if strategy else 1
    steps = pairs // (batch_size * replicas)
    if steps < 1:
        raise ValueError(f"{pairs} pairs are fewer than a step takes, {batch_size} on each of {replicas} replicas")
    last_step = epochs * steps if max_steps is None else min(epochs * steps, max_steps)

    def test_input_fn():
        return tf.data.Dataset.zip((images["testA"], images["testB"])).batch(batch_size).prefetch(tf.data.AUTOTUNE)

    shows = any(isinstance(hook, ProgressHook) for hook in hooks)
    test_hooks = [_TestBar(math.ceil(tests / (batch_size * replicas)))] if shows else []
    metrics, step = None, checkpoints.trained_steps(estimator.model_dir)
    while step < last_step:
        start = time.perf_counter()
        epoch, done = divmod(step, steps)
        goal = min((epoch + 1) * steps, last_step)
        data = training_pairs(images, batch_size, epoch, seed, skip=done * replicas)
        estimator.train(lambda data=data: data, hooks=list(hooks), max_steps=goal)
        metrics = estimator.evaluate(test_input_fn, hooks=test_hooks)
        step = int(metrics["global_step"])
        if step == last_step or step % (grid_epochs * steps) == 0:
            cycles = estimator.predict(lambda: images["testA"].take(GRID_ROWS).batch(1))
            rows = [[cycle["x"], cycle["generated"], cycle["cycled"]] for cycle in cycles]
            write_image_grid(estimator.model_dir, "cycle", step, np.array(rows) / 2 + 0.5)
        if shows:
            click.echo(f"epoch {epoch + 1} of {epochs}: {time.perf_counter() - start:.1f} s", err=True)
        if step < goal:
            break  # a hook stopped training
    return metrics or estimator.evaluate(test_input_fn, hooks=test_hooks)


def open_images(data_dir: str | os.PathLike[str] | None, image_size: tuple[int, int]) -> dict[str, tf.data.Dataset]:
    """Returns a dict of `PARTS` to in-memory datasets of float32 RGB images in [-1, 1]; see `train` for `data_dir`."""
    if data_dir is None:
        opened = {part: tf.data.Dataset.from_tensor_slices(draw(part, image_size)) for part in PARTS}
    elif str(data_dir).startswith("tfds:"):
        opened = _from_tfds(str(data_dir).removeprefix("tfds:"), image_size)
    else:
        opened = _from_directory(Path(data_dir), image_size)
    images = {}
    for part in PARTS:
        in_memory = opened[part].map(lambda image: 2 * image - 1, num_parallel_calls=tf.data.AUTOTUNE).cache()
        # Read everything now, so that a file that cannot be decoded is reported before training, not after an epoch.
        count = in_memory.reduce(tf.constant(0, tf.int64), lambda count, _: count + 1)
        images[part] = in_memory.apply(tf.data.experimental.assert_cardinality(count))
    return images


def number_of_pairs(images: Mapping[str, tf.data.Dataset], kind: str) -> int:
    """Returns the number of pairs per epoch of "train" or "test"; warns if the two sets differ in size."""
    a, b = (len(images[f"{kind}{side}"]) for side in "AB")
    if a != b:
        log.warning("%sA has %d images and %sB has %d: an epoch uses %d of each.", kind, a, kind, b, min(a, b))
    return min(a, b)


def training_pairs(
    images: Mapping[str, tf.data.Dataset], batch_size: int, epoch: int, seed: int, *, skip: int = 0
) -> tf.data.Dataset:
    """Returns the batches (x, y) of an epoch without the first `skip`; order and flips depend on the epoch."""
    sides = []
    for side, part in enumerate(("trainA", "trainB")):
        number = seed + 2 * epoch + side
        shuffled = images[part].shuffle(len(images[part]), seed=number)
        numbered = tf.data.Dataset.zip((shuffled, tf.data.Dataset.range(len(images[part]))))
        sides.append(numbered.map(lambda image, index, number=number: _flipped(image, (number, index))))
    pairs = tf.data.Dataset.zip(tuple(sides)).batch(batch_size, drop_remainder=True)
    return pairs.skip(skip).prefetch(tf.data.AUTOTUNE)


def draw(part: str, image_size: tuple[int, int]) -> np.ndarray:
    """Draws float32 images in [0, 1] for one of `PARTS`: striped red apples for A, dotted oranges for B."""
    rng = np.random.default_rng(PARTS.index(part))
    rows, columns = np.mgrid[-1 : 1 : image_size[0] * 1j, -1 : 1 : image_size[1] * 1j]
    images = []
    for _ in range(DRAWN[part]):
        (top, left), radius, phase = rng.uniform(-0.25, 0.25, 2), rng.uniform(0.45, 0.7), rng.uniform(0, 6)
        down, right = (rows - top) / radius, (columns - left) / radius
        inside = 1 - down**2 - right**2
        if part.endswith("A"):
            colour, texture = rng.uniform((0.7, 0.1, 0.1), (0.9, 0.3, 0.2)), np.sin(9 * right + phase)
        else:
            colour, texture = rng.uniform((0.9, 0.5, 0.0), (1.0, 0.6, 0.1)), np.sin(18 * down) * np.sin(18 * right)
        shade = 0.4 + 0.6 * np.sqrt(np.maximum(inside, 0)) + 0.15 * texture
        fruit, background = shade[..., None] * colour, rng.uniform(0.6, 0.95, 3)
        images.append(background + np.clip(8 * inside, 0, 1)[..., None] * (fruit - background))
    return np.clip(images, 0, 1).astype(np.float32)


def _from_directory(directory, image_size):
    if not directory.is_dir():
        raise FileNotFoundError(f"there is no folder {directory}")
    missing = [part for part in PARTS if not (directory / part).is_dir()]
    if missing:
        raise FileNotFoundError(f"{directory} has no folder {', '.join(missing)}; it needs {', '.join(PARTS)}")
    opened = {}
    for part in PARTS:
        paths = sorted(str(path) for path in (directory / part).iterdir() if path.suffix.lower() in _SUFFIXES)
        if not paths:
            raise ValueError(f"{directory / part} has no JPEG or PNG files")
        batches = image_files(paths, [part], image_size, num_epochs=1)()
        opened[part] = batches.map(lambda images, labels: images).unbatch()
    return opened


def _from_tfds(name, image_size):
    builder = tfds.prepared(name)
    missing = [part for part in PARTS if part not in builder.info.splits]
    if missing:
        raise ValueError(f"tfds:{name} has no split {', '.join(missing)}; give one of cycle_gan/…")

    def load(example):
        return tf.image.resize(tf.image.convert_image_dtype(example["image"], tf.float32), image_size)

    return {part: builder.as_dataset(split=part).map(load, num_parallel_calls=tf.data.AUTOTUNE) for part in PARTS}


def _flipped(image, seed):
    return tf.image.stateless_random_flip_left_right(image, tf.stack([tf.cast(part, tf.int64) for part in seed]))


class _TestBar(tf.compat.v1.train.SessionRunHook):
    """Shows a progress bar of an evaluation if standard error is a terminal."""

    def __init__(self, steps):
        self._steps = steps

    def begin(self):
        self._bar = tqdm.tqdm(total=self._steps, desc="test", unit="step", disable=None)

    def after_run(self, run_context, run_values):
        self._bar.update()

    def end(self, session):
        self._bar.close()
