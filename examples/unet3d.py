"""Segments volumes with a 3-D U-Net whose layers are split over two devices.

Run it cell by cell in an editor, or all at once with `python examples/unet3d.py`. The same without code:
`estimator_train --recipe unet3d --split-over 2`.
"""

import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train import distribution, memory_estimate
from estimator_train.app.recipes import unet3d

VOLUME, FILTERS, MAX_STEPS = 32, 8, 150

# %% The first two GPUs, the only one or, without GPUs, two logical CPU devices; chosen before TensorFlow opens them.
num_gpus = len(tf.config.list_physical_devices("GPU"))
devices = distribution.devices_to_split_over(1 if num_gpus == 1 else 2)

# %% The data: bright ellipsoids in noise, drawn on the fly, and their masks.
train_input_fn = lambda: unet3d.training_volumes(VOLUME, batch_size=1)  # noqa: E731
eval_input_fn = lambda: unet3d.evaluation_volumes(VOLUME, batch_size=1)  # noqa: E731

# %% The model, which can be any compiled functional one.
keras.utils.set_random_seed(0)
model = unet3d.build_model(VOLUME, FILTERS)
model.summary()

# %% The estimated memory for training on one device, and on each of two.
for count in (1, 2):
    sizes = [device.total for device in memory_estimate.estimate(model, batch_size=1, device_count=count)]
    print(f"{count} devices: {', '.join(f'{size / 1e6:.0f} MB' for size in sizes)}")

# %% Split the model over the devices.
split = et.split_over(model, devices)
print({weight.name: weight.device[-5:] for weight in split.trainable_weights})

# %% The Estimator. Run this cell again to continue from the last checkpoint.
estimator = et.model_to_estimator(split, model_dir="runs/unet3d_script")
estimator.train(train_input_fn, hooks=[et.ProgressHook()], max_steps=MAX_STEPS)
print(estimator.evaluate(eval_input_fn))
