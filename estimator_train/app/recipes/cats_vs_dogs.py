"""MobileNetV2 tells cats from dogs. With given weights only the softmax layer is trained, otherwise the whole network.

Labels are integers. At the end it prints a table of the evaluations before and after training.

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

from estimator_train.app import datasets
from estimator_train.app.datasets import drawn_pets
from estimator_train.app.datasets.pipeline import MappedBatches
from estimator_train.app.models.weights import application, check_weights
from estimator_train.keras_estimator import model_to_estimator
from estimator_train.run_config import RunConfig

IMAGE_SIZE = (224, 224)

# Momentum of batch normalization if it is trained. With MobileNetV2's own 0.999, it takes thousands of steps until
# evaluation uses the statistics that training uses: after 50 steps it still guesses, and so it does with 0.9, although
# training is right in 99 % of cases.
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
    """Trains in `model_dir`, prints the evaluations before and after training, and returns the metrics after it.

    ::

        metrics = cats_vs_dogs.train("runs/cats_vs_dogs", data_dir="tfds:cats_vs_dogs", weights="imagenet")

    Args:
      model_dir: directory for checkpoints and events.
      data_dir: a directory with a subdirectory of images per class (see `datasets.images.open_directory`),
        tfds:cats_vs_dogs, or None for drawn faces.
      weights: weights of the convolutions: "imagenet", an HDF5 file, or "none" for random ones; see `build_model`.
      image_size: (height, width) in pixels, 32 or more each.
      batch_size: images per step on each replica.
      epochs: passes over the training images.
      max_steps: global step to stop at, instead of `epochs`.
      seed: seed for the initial weights and the order of the images.
      strategy: a `tf.distribute.Strategy`; None trains on one device.
      hooks: `SessionRunHook`s for training.

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
    """Returns the number of training images."""
    return _open(data_dir).train_examples


def build_model(
    image_size: tuple[int, int] = IMAGE_SIZE, num_classes: int = 2, weights: str | os.PathLike[str] = "none"
) -> keras.Model:
    """Returns a compiled model from images (batch, height, width, 3) in [0, 1] to probabilities (batch, num_classes).

    Given `weights` are frozen. Random convolutions are trained, because untrained their features are about 1e-13.
    """
    check_weights(weights)  # building the base takes seconds, so check first
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
    """Replaces one-hot labels by class indices, int64 of shape (batch,)."""
    return images, tf.argmax(one_hot, axis=-1)


def _table(before, after):
    rows = [
        [when, metrics["global_step"], metrics["accuracy"], metrics["loss"]]
        for when, metrics in (("before", before), ("after", after))
    ]
    return tabulate.tabulate(rows, ["", "step", "accuracy", "loss"], floatfmt=".4f")
