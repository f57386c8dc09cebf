"""A U-Net that finds the ruled lines of tables on pages, fed by a Python generator that augments on the fly.

The data is a directory of images and masks (datasets/masked_images.py); without one, pages are drawn
(datasets/drawn_tables.py). The model predicts one mask for the lines between rows and one for those between columns.

Source: Ronneberger, Fischer and Brox, "U-Net" (2015), with `filters` instead of 64 and with padded convolutions, which
keep the size of the image.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train import input_fns
from estimator_train.app.datasets import drawn_tables, masked_images
from estimator_train.app.models.dice import bce_dice_loss, dice_coefficient
from estimator_train.app.models.unet import unet_features
from estimator_train.exporter import BestCheckpointExporter
from estimator_train.hooks.early_stopping import stop_if_no_decrease_hook
from estimator_train.keras_estimator import model_to_estimator
from estimator_train.run_config import RunConfig
from estimator_train.training import EvalSpec, TrainSpec, train_and_evaluate

MASKS = drawn_tables.MASKS

_POOLINGS = 4


def train(
    model_dir: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    image_size: tuple[int, int] = (512, 512),
    batch_size: int = 4,
    epochs: int = 4,
    max_steps: int | None = None,
    filters: int = 8,
    learning_rate: float = 5e-3,
    patience: int = 3,
    workers: int = 2,
    seed: int = 0,
    strategy: tf.distribute.Strategy | None = None,
    hooks: Iterable[tf.compat.v1.train.SessionRunHook] = (),
) -> dict[str, Any]:
    """Trains in `model_dir`, evaluates after every epoch, and returns the metrics of the last checkpoint.

    The checkpoint with the lowest loss is kept in `model_dir`/export/best_checkpoint.

    ::

        metrics = segmentation.train("runs/segmentation", data_dir="pages", image_size=(512, 512))

    Args:
      model_dir: directory for checkpoints and events.
      data_dir: directory with images/, masks/rows/ and masks/columns/, see `masked_images`; None for drawn tables.
      image_size: (height, width) to resize images to, multiples of 16.
      batch_size: images per step on each replica.
      epochs: passes over the training images, which are four fifths of all.
      max_steps: global step to stop at, or None for the end of the last epoch.
      filters: filters in the first convolution; they double with every pooling.
      learning_rate: Adam's learning rate.
      patience: number of evaluations without a lower loss after which training stops.
      workers: processes that read and augment images; 0 does so in the training process.
      seed: seed for the initial weights and the order and augmentation of the images.
      strategy: a `tf.distribute.Strategy` for training and evaluation; None uses one device.
      hooks: `SessionRunHook`s for training.

    Raises:
      FileNotFoundError: there are no images, or an image lacks a mask.
      ValueError: a mask and its image differ in size, or a setting is out of range.
    """
    samples, eval_samples = masked_images.split(masked_images.list_samples(data_dir or drawn_tables.directory(), MASKS))
    global_batch_size = batch_size * (strategy.num_replicas_in_sync if strategy else 1)
    steps_per_epoch = -(-len(samples) // global_batch_size)
    eval_steps = -(-len(eval_samples) // global_batch_size)

    keras.utils.set_random_seed(seed)
    model = build_model(image_size, filters, learning_rate)
    config = RunConfig(
        model_dir=model_dir,
        tf_random_seed=seed,
        train_distribute=strategy,
        eval_distribute=strategy,
        resume_input=True,
    )
    estimator = model_to_estimator(model, config=config)
    stop = stop_if_no_decrease_hook(
        estimator, "loss", patience * steps_per_epoch, run_every_secs=None, run_every_steps=1
    )
    train_spec = TrainSpec(
        training_images(samples, image_size, batch_size, seed=seed, workers=workers),
        max_steps=max_steps or epochs * steps_per_epoch,
        hooks=[*hooks, stop],
    )
    eval_spec = EvalSpec(
        evaluation_images(eval_samples, image_size, batch_size),
        steps=eval_steps,
        exporters=BestCheckpointExporter(),
        every_steps=steps_per_epoch,
    )
    metrics, _ = train_and_evaluate(estimator, train_spec, eval_spec)
    return metrics


def train_examples(data_dir: str | os.PathLike[str] | None = None) -> int:
    """Returns the number of training images."""
    samples, _ = masked_images.split(masked_images.list_samples(data_dir or drawn_tables.directory(), MASKS))
    return len(samples)


def training_images(
    samples: Sequence[masked_images.Sample],
    image_size: tuple[int, int],
    batch_size: int,
    *,
    seed: int = 0,
    workers: int = 0,
) -> Callable[..., tf.data.Dataset]:
    """Returns an input_fn of endless batches, with a new order and new augmentation every epoch."""
    return _images(samples, image_size, batch_size, seed=seed, num_epochs=None, workers=workers)


def evaluation_images(
    samples: Sequence[masked_images.Sample], image_size: tuple[int, int], batch_size: int
) -> Callable[..., tf.data.Dataset]:
    """Returns an input_fn of every image once, in order and without augmentation."""
    return _images(samples, image_size, batch_size, seed=None, num_epochs=1, workers=0)


def _images(samples, image_size, batch_size, *, seed, num_epochs, workers):
    def make_generator(epoch, first, input_context):
        order = {"seed": seed, "epoch": epoch, "first": first}
        return masked_images.examples(samples, image_size, **order, input_context=input_context)

    return input_fns.generator(
        make_generator,
        batch_size=batch_size,
        num_epochs=num_epochs,
        output_signature=(
            tf.TensorSpec((*image_size, 3), tf.uint8),
            tf.TensorSpec((*image_size, len(MASKS)), tf.uint8),
        ),
        elements_per_epoch=len(samples),
        workers=workers,
    )


def build_model(image_size: tuple[int, int] = (512, 512), filters: int = 8, learning_rate: float = 5e-3) -> keras.Model:
    """Returns a compiled model from uint8 images (batch, height, width, 3) to probabilities (batch, height, width, 2).

    Raises:
      ValueError: the height or width is not a multiple of 16.
    """
    if any(side < 1 or side % 2**_POOLINGS for side in image_size):
        raise ValueError(f"the sides of image_size must be multiples of {2**_POOLINGS} pixels, got {image_size}")
    inputs = keras.Input((*image_size, 3), dtype="uint8", name="image")
    features = unet_features(keras.layers.Rescaling(1 / 255, name="rescaling")(inputs), filters, _POOLINGS)
    outputs = keras.layers.Conv2D(len(MASKS), 1, activation="sigmoid", dtype="float32", name="masks")(features)
    model = keras.Model(inputs, outputs, name="unet")
    optimizer = keras.optimizers.Adam(learning_rate)
    model.compile(optimizer, bce_dice_loss, metrics=["binary_accuracy", dice_coefficient])
    return model
