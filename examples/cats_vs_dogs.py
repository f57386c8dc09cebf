"""Tells cats from dogs with MobileNetV2, on all available GPUs.

Run it cell by cell in an editor, or all at once with `python examples/cats_vs_dogs.py`. The same without code:
`estimator_train --recipe cats_vs_dogs --gpus 2`.
"""

import numpy as np
import tensorflow as tf

import estimator_train as et
from estimator_train import distribution
from estimator_train.app.datasets import drawn_pets
from estimator_train.app.recipes import cats_vs_dogs

IMAGE_SIZE = (224, 224)
EPOCHS = 5

# %% A strategy for the GPUs. The batch is per replica: two GPUs make steps of 128 images.
num_gpus = len(tf.config.list_physical_devices("GPU"))
strategy = distribution.gpus(num_gpus) if num_gpus > 1 else None

# %% Train on drawn faces. For photographs, pass data_dir="tfds:cats_vs_dogs" or a directory, and weights="imagenet".
# Run this cell again with more epochs to continue from the last checkpoint.
timing = et.TimingHook("runs/cats_vs_dogs_script")
metrics = cats_vs_dogs.train(
    "runs/cats_vs_dogs_script",
    image_size=IMAGE_SIZE,
    epochs=EPOCHS,
    strategy=strategy,
    hooks=[timing, et.ProgressHook()],
)

# %% The speed over all replicas.
print(f"{timing.summary()['examples_per_second']:.1f} examples/s")

# %% Predict a new face with the weights of the last checkpoint.
estimator = et.model_to_estimator(cats_vs_dogs.build_model(IMAGE_SIZE), model_dir="runs/cats_vs_dogs_script")
face = drawn_pets.draw_pet("dogs", IMAGE_SIZE, np.random.default_rng(1000)).astype(np.float32) / 255
(prediction,) = estimator.predict(lambda: tf.data.Dataset.from_tensors(face[np.newaxis]))
print(dict(zip(drawn_pets.CLASS_NAMES, prediction["probabilities"], strict=True)))
