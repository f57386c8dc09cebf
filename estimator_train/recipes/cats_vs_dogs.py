"""MobileNetV2 tells cats from dogs: on weights that are given only the softmax is trained, without them the whole net.

The batch is per replica; labels are integers. It ends with the table of the evaluations before and after training.

Source: Sandler, Howard, Zhu, Zhmoginov and Chen, "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

import tabulate
import tensorflow as tf
import tf_keras as keras

from estimator_train import datasets
from estimator_train.datasets import drawn_pets
from estimator_train.datasets.pipeline import MappedBatches
from estimator_train.keras_estimator import model_to_estimator
from estimator_train.models.weights import application, check_weights
from estimator_train.run_config import RunConfig

IMAGE_SIZE = (224, 224)

# Of batch normalization, where it is trained. With MobileNetV2's own, 0.999, evaluation takes thousands of steps to see
# the averages that training sees: after 50 steps it guesses, with 0.9 too, where training is right in 99 % of cases.
_MOMENTUM = 0.5


def train(
    model_dir: str | os.PathLike[str],
    *,
    data_dir: str | None = None,
    weights: str | os.PathLike[str] = "none",
    image_size: tuple[int, int] = IMAGE_SIZE,
    batch_size: int = 64,
    epochs: int = 5,
    max_steps: int | None = None,
    seed: int = 0,
    strategy: tf.distribute.Strategy | None = None,
    hooks: Iterable[tf.compat.v1.train.SessionRunHook] = (),
) -> dict[str, Any]:
    """Trains in `model_dir`, evaluates before and after, prints both, and returns the metrics after.

    Args:
      model_dir: folder of checkpoints and events.
      data_dir: a folder with a folder of images for each class (see `datasets.images.open_folder`), tfds:cats_vs_dogs,
        or None for drawn faces.
      weights: of the convolutions: "imagenet", an HDF5 file, or "none" for random ones; see `build_model`.
      image_size: (height, width) in pixels, 32 or more each.
      batch_size: images a step on each replica.
      epochs: passes over the training images.
      max_steps: global step to stop at, instead of `epochs`.
      seed: of the initial weights and the order of the images.
      strategy: `tf.distribute.Strategy` whose replicas share out the batches; None: one device.
      hooks: `SessionRunHook`s of the training.

    Raises:
      ValueError, OSError: see `datasets.open_dataset` and `models.build_model`.
    """
    data = _open(data_dir)
    keras.utils.set_random_seed(seed)
    model = build_model(image_size, len(data.class_names), weights)
    config = RunConfig(
        model_dir=model_dir,
        tf_random_seed=seed,
        train_distribute=strategy,
        eval_distribute=strategy,
        resume_input=True,
    )
    estimator = model_to_estimator(model, config=config)
    sizes = {"image_size": image_size, "batch_size": batch_size}
    train_input_fn = MappedBatches(data.train_input_fn(**sizes, num_epochs=None, seed=seed), _with_integer_label)
    eval_input_fn = MappedBatches(data.eval_input_fn(**sizes), _with_integer_label)
    replicas = strategy.num_replicas_in_sync if strategy else 1
    last_step = max_steps or epochs * math.ceil(data.train_examples / (batch_size * replicas))

    before = estimator.evaluate(eval_input_fn)
    estimator.train(train_input_fn, hooks=list(hooks), max_steps=last_step)
    after = estimator.evaluate(eval_input_fn)
    print(_table(before, after))
    return after


def train_examples(data_dir: str | None = None) -> int:
    """The number of images in an epoch of training."""
    return _open(data_dir).train_examples


def build_model(
    image_size: tuple[int, int] = IMAGE_SIZE, num_classes: int = 2, weights: str | os.PathLike[str] = "none"
) -> keras.Model:
    """A compiled model from images (batch, height, width, 3) in [0, 1] to probabilities (batch, num_classes), float32.

    With `weights` the convolutions stay as they are. Random ones are trained: as they are, their features are 1e-13.
    """
    check_weights(weights)  # before the seconds that it takes to build the base
    base = application(keras.applications.MobileNetV2, image_size, weights)
    base.trainable = weights == "none"
    for layer in base.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = _MOMENTUM
    images = keras.Input((*image_size, 3), name="image")
    features = base(keras.layers.Rescaling(2.0, offset=-1.0)(images))
    features = keras.layers.GlobalAveragePooling2D()(features)
    features = keras.layers.Dropout(0.2)(features)
    probabilities = keras.layers.Dense(num_classes, "softmax", dtype="float32", name="probabilities")(features)
    model = keras.Model(images, probabilities, name="cats_vs_dogs")
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _open(data_dir):
    if data_dir is None:
        return drawn_pets.open_dataset()
    if data_dir.startswith("tfds:"):
        return datasets.open_dataset(data_dir)
    return datasets.open_dataset("cats_vs_dogs", data_dir)


def _with_integer_label(images, one_hot):
    """The batch with class indices, int64 of shape (batch,), instead of one-hot labels."""
    return images, tf.argmax(one_hot, axis=-1)


def _table(before, after):
    rows = [
        [when, metrics["global_step"], metrics["accuracy"], metrics["loss"]]
        for when, metrics in (("before", before), ("after", after))
    ]
    return tabulate.tabulate(rows, ["", "step", "accuracy", "loss"], floatfmt=".4f")
