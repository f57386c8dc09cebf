"""A 3-D U-Net that segments volumes of ellipsoids in noise, which are drawn on the fly.

MirroredStrategy copies a model to every device and splits the batch. If not even one volume fits on a device,
`split_over` splits the model instead, and each volume passes through all devices.

Source: Çiçek, Abdulkadir, Lienkamp, Brox and Ronneberger, "3D U-Net" (2016), with `filters` instead of 32 and with
padded convolutions, which keep the size of the volume.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine import checkpoints
from estimator_train._engine.keras.tf_keras.split import split_over as split
from estimator_train.app.models.dice import dice_coefficient, dice_loss
from estimator_train.app.models.unet import unet_features
from estimator_train.keras_estimator import model_to_estimator
from estimator_train.run_config import RunConfig

VOLUME = 32
EVAL_EXAMPLES = 16

_POOLINGS = 3
_ELLIPSOIDS = 3
_FIRST_EVAL_EXAMPLE = 1_000_000


def train(
    model_dir: str | os.PathLike[str],
    *,
    volume: int = VOLUME,
    filters: int = 8,
    batch_size: int = 1,
    max_steps: int = 300,
    seed: int = 0,
    accumulate_steps: int = 1,
    mixed_precision: str | None = None,
    recompute: bool = False,
    strategy: tf.distribute.Strategy | None = None,
    split_over: Sequence[str] | Mapping[str, str] | None = None,
    hooks: Iterable[tf.compat.v1.train.SessionRunHook] = (),
) -> dict[str, Any]:
    """Trains in `model_dir` up to `max_steps`, evaluates, and returns the metrics.

    ::

        metrics = unet3d.train("runs/unet3d", volume=64, max_steps=1000)

    Args:
      model_dir: directory for checkpoints and events.
      volume: side length of the volumes in voxels, a multiple of 8.
      filters: filters in the first convolution; they double with every pooling.
      batch_size: volumes per step on each replica.
      max_steps: global step to stop at.
      seed: seed for the initial weights and the volumes.
      accumulate_steps, mixed_precision, recompute: settings of `RunConfig` that save memory.
      strategy: a `tf.distribute.Strategy`; None trains on one device.
      split_over: devices to spread the layers over, or a dict of layer names to devices; see `split.split_over`.
      hooks: `SessionRunHook`s for training.

    Raises:
      ValueError: the volume is not a multiple of 8, or both `strategy` and `split_over` are given.
    """
    if strategy and split_over:
        raise ValueError("a strategy puts the whole model on every device; give strategy or split_over, not both")
    keras.utils.set_random_seed(seed)
    model = build_model(volume, filters)
    if split_over:
        model = split(model, split_over)
    config = RunConfig(
        model_dir=model_dir,
        tf_random_seed=seed,
        train_distribute=strategy,
        accumulate_steps=accumulate_steps,
        mixed_precision=mixed_precision,
        recompute=recompute,
    )
    estimator = model_to_estimator(model, config=config)
    volumes_a_step = batch_size * accumulate_steps * (strategy.num_replicas_in_sync if strategy else 1)
    drawn = checkpoints.trained_steps(model_dir) * volumes_a_step
    estimator.train(lambda: training_volumes(volume, batch_size, seed, drawn), hooks=list(hooks), max_steps=max_steps)
    return estimator.evaluate(lambda: evaluation_volumes(volume, batch_size, seed))


def build_model(volume: int = VOLUME, filters: int = 8) -> keras.Model:
    """Returns a compiled model from volumes (batch, volume, volume, volume, 1) to probabilities of the same shape."""
    if volume < 1 or volume % 2**_POOLINGS:
        raise ValueError(f"the side of the volume must be a multiple of {2**_POOLINGS} voxels, got {volume}")
    inputs = keras.Input((volume, volume, volume, 1), name="volume")
    features = unet_features(inputs, filters, _POOLINGS)
    outputs = keras.layers.Conv3D(1, 1, activation="sigmoid", dtype="float32", name="mask")(features)
    model = keras.Model(inputs, outputs, name="unet3d")
    model.compile(keras.optimizers.Adam(1e-2), dice_loss, metrics=[dice_coefficient])
    return model


def training_volumes(volume: int, batch_size: int, seed: int = 0, first: int = 0) -> tf.data.Dataset:
    """Returns endless batches of volumes and masks, starting with volume number `first`; see `draw`.

    No volume repeats within a million.
    """
    numbers = tf.data.Dataset.range(_FIRST_EVAL_EXAMPLE).repeat().skip(first % _FIRST_EVAL_EXAMPLE)
    return _drawn(numbers, volume, batch_size, seed)


def evaluation_volumes(volume: int, batch_size: int, seed: int = 0) -> tf.data.Dataset:
    """Returns batches of `EVAL_EXAMPLES` volumes and masks that are not used for training."""
    numbers = tf.data.Dataset.range(_FIRST_EVAL_EXAMPLE, _FIRST_EVAL_EXAMPLE + EVAL_EXAMPLES)
    return _drawn(numbers, volume, batch_size, seed)


def _drawn(numbers, volume, batch_size, seed):
    drawn = numbers.map(lambda number: draw(volume, [seed, number]), num_parallel_calls=tf.data.AUTOTUNE)
    return drawn.batch(batch_size).prefetch(1)


def draw(volume: int, seed: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws a volume of noise around bright ellipsoids, and the mask of the ellipsoids.

    Args:
      volume: side length in voxels.
      seed: two integers that determine the volume.

    Returns:
      Two float32 tensors of shape (volume, volume, volume, 1).
    """
    centre_seed, radius_seed, noise_seed = tf.unstack(tf.random.split(tf.cast(seed, tf.int64), 3))
    centres = tf.random.stateless_uniform([_ELLIPSOIDS, 1, 1, 1, 3], centre_seed, -0.6, 0.6)
    radii = tf.random.stateless_uniform([_ELLIPSOIDS, 1, 1, 1, 3], radius_seed, 0.2, 0.5)
    axis = tf.linspace(-1.0, 1.0, volume)
    points = tf.stack(tf.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)
    inside = tf.reduce_sum(((points - centres) / radii) ** 2, axis=-1) < 1
    mask = tf.cast(tf.reduce_any(inside, axis=0), tf.float32)[..., tf.newaxis]
    return mask + tf.random.stateless_normal([volume, volume, volume, 1], noise_seed), mask
