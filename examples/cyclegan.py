"""Turns apples into oranges and back with CycleGAN, on all available GPUs.

Run it cell by cell in an editor, or all at once with `python examples/cyclegan.py`. The same without code:
`estimator_train --recipe cyclegan --gpus 2`.
"""

import numpy as np
import tensorflow as tf

import estimator_train as et
from estimator_train import distribution
from estimator_train.app.models.cyclegan import build_cyclegan
from estimator_train.app.recipes import cyclegan
from estimator_train.app.report.image_grid import write_image_grid

IMAGE_SIZE, FILTERS, MAX_STEPS = (64, 64), 32, 288

# %% A strategy for the GPUs. The batch is per replica: two GPUs take two pairs per step.
num_gpus = len(tf.config.list_physical_devices("GPU"))
strategy = distribution.gpus(num_gpus) if num_gpus > 1 else None

# %% Train on drawn fruit. For photographs, pass data_dir="apple2orange", a directory, or "tfds:cycle_gan/horse2zebra".
# Run this cell again with more steps to continue from the last checkpoint.
metrics = cyclegan.train(
    "runs/cyclegan_script",
    image_size=IMAGE_SIZE,
    filters=FILTERS,
    max_steps=MAX_STEPS,
    strategy=strategy,
    hooks=[et.ProgressHook()],
)

# %% Mean absolute errors, for pixels in [-1, 1], including those of images after a whole cycle.
print({name: round(float(value), 3) for name, value in metrics.items() if name.startswith("mae_")})

# %% Translate other images with the trained model. Each row of the grid shows x, G(x) and F(G(x)).
apples = 2 * cyclegan.draw("testA", IMAGE_SIZE)[:2] - 1
estimator = et.model_to_estimator(lambda: build_cyclegan(IMAGE_SIZE, FILTERS), model_dir="runs/cyclegan_script")
cycles = estimator.predict(lambda: tf.data.Dataset.from_tensor_slices(apples).batch(1))
rows = [[cycle["x"], cycle["generated"], cycle["cycled"]] for cycle in cycles]
print(write_image_grid("runs/cyclegan_script", "apples", int(metrics["global_step"]), np.array(rows) / 2 + 0.5))
