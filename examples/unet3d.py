"""Segments volumes with a 3-D U-Net: on one device, on replicas, or split over devices that each hold a part of it.

    python examples/unet3d.py
    python examples/unet3d.py --replicas 2      # each device holds the whole model, and takes batches of its own
    python examples/unet3d.py --split-over 2    # each device holds a part of the model: for volumes that fit on none
    python examples/unet3d.py --data-dir FOLDER --volume 96 --max-steps 2000

FOLDER has files NAME.npz with the arrays `volume` and `mask`, both cubes of that many voxels a side; every fifth is
held out. Without one, the script draws ellipsoids in noise. docs/unet3d.md explains the program: copy it, and change
what differs for you.

Source: Çiçek, Abdulkadir, Lienkamp, Brox and Ronneberger, "3D U-Net" (2016), with `filters` instead of 32 and with
padded convolutions, which keep the size of the volume.
"""

import argparse
import signal
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train import distribution, input_fns, memory_estimate

POOLINGS = 3
DRAWN = {"train": 200, "eval": 16}  # volumes an epoch


# The data: volumes of float32 and masks of 0 and 1, both of shape (side, side, side, 1).


def read(path):
    with np.load(path) as arrays:
        volume, mask = arrays["volume"], arrays["mask"]
    return volume[..., np.newaxis].astype(np.float32), (mask[..., np.newaxis] > 0).astype(np.float32)


def draw(side, rng):
    """Draws bright ellipsoids in noise of the same strength, and their mask."""
    points = np.stack(np.meshgrid(*[np.linspace(-1, 1, side)] * 3, indexing="ij"), axis=-1)
    mask = np.zeros((side, side, side, 1), np.float32)
    for _ in range(3):
        centre, radius = rng.uniform(-0.6, 0.6, 3), rng.uniform(0.2, 0.5, 3)
        mask[np.sum(((points - centre) / radius) ** 2, axis=-1) < 1] = 1
    return mask + rng.standard_normal(mask.shape, np.float32), mask


def volumes(paths, side, *, seed, shuffle, batch_size):
    """Returns an input_fn over files, or over new drawings in each epoch if there are none: endless to train on.

    A resumed training begins at element `first` of `epoch`, so that it sees the volumes that the unbroken one would.
    """
    part = "train" if shuffle else "eval"
    number = len(paths) or DRAWN[part]

    def examples(epoch, first):
        order = np.random.default_rng([seed, epoch]).permutation(number) if shuffle else np.arange(number)
        for index in order[first:]:
            rng = np.random.default_rng([seed, shuffle, epoch, index])
            yield read(paths[index]) if paths else draw(side, rng)

    return input_fns.generator(
        examples,
        batch_size=batch_size,
        num_epochs=None if shuffle else 1,
        output_signature=(tf.TensorSpec([side, side, side, 1]), tf.TensorSpec([side, side, side, 1])),
        elements_per_epoch=number,
    )


# The model. Its layers have names, so that a dict such as {"encoder_*": "GPU:0", "*": "GPU:1"} can split it, too.


def convolutions(features, filters, name):
    for index in range(2):
        convolution = keras.layers.Conv3D(filters, 3, padding="same", use_bias=False, name=f"{name}_conv_{index}")
        features = convolution(features)
        features = keras.layers.BatchNormalization(momentum=0.9, name=f"{name}_norm_{index}")(features)
        features = keras.layers.ReLU(name=f"{name}_relu_{index}")(features)
    return features


def build_model(side, filters, poolings=POOLINGS):
    """Returns a compiled model from volumes (batch, side, side, side, 1) to probabilities of the same shape."""
    if side < 1 or side % 2**poolings:
        sys.exit(f"--volume {side}: the side must be a multiple of {2**poolings} voxels")
    volume = features = keras.Input((side, side, side, 1), name="volume")
    skips = []
    for level in range(poolings):
        features = convolutions(features, filters * 2**level, f"encoder_{level}")
        skips.append(features)
        features = keras.layers.MaxPooling3D(name=f"encoder_{level}_pooling")(features)
    features = convolutions(features, filters * 2**poolings, "bottom")
    for level in reversed(range(poolings)):
        name = f"decoder_{level}"
        features = keras.layers.Conv3DTranspose(filters * 2**level, 2, 2, name=f"{name}_upsampling")(features)
        features = keras.layers.Concatenate(name=f"{name}_skip")([skips[level], features])
        features = convolutions(features, filters * 2**level, name)
    mask = keras.layers.Conv3D(1, 1, activation="sigmoid", dtype="float32", name="mask")(features)
    model = keras.Model(volume, mask, name="unet3d")
    model.compile(keras.optimizers.Adam(1e-2), dice_loss, metrics=[dice_coefficient])
    return model


# The Dice coefficient of each example, 2 |A ∩ B| / (|A| + |B|). Milletari, Navab and Ahmadi, "V-Net" (2016).


def dice_loss(truth, prediction):
    return 1 - dice(truth, prediction)


def dice_coefficient(truth, prediction):
    return dice(truth, tf.cast(prediction > 0.5, tf.float32))


def dice(truth, prediction):
    axes = [1, 2, 3, 4]
    overlap = tf.reduce_sum(truth * prediction, axes)
    return (2 * overlap + 1) / (tf.reduce_sum(truth, axes) + tf.reduce_sum(prediction, axes) + 1)  # 1 if both are empty


# The training.


def say_memory(model, batch_size, devices):
    """Prints what a step is going to take on each device; nothing is run for it."""
    for number, memory in enumerate(memory_estimate.estimate(model, batch_size, devices)):
        megabytes = memory.total / 1e6
        kernels = memory_estimate.HEADROOM * megabytes
        print(f"memory: about {megabytes:.0f} MB on device {number}; leave {kernels:.0f} MB free", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-dir", default="runs/unet3d", help="where the run is, and goes on [%(default)s]")
    parser.add_argument("--data-dir", type=Path, help="folder of .npz files; without it, volumes are drawn")
    parser.add_argument("--volume", type=int, default=32, help="voxels a side [%(default)s]")
    parser.add_argument("--filters", type=int, default=8, help="of the first convolution [%(default)s]")
    parser.add_argument("--batch-size", type=int, default=1, help="volumes a step on each replica [%(default)s]")
    parser.add_argument("--max-steps", type=int, default=300, help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="[%(default)s]")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--replicas", type=int, default=1, help="devices that hold the whole model [%(default)s]")
    group.add_argument("--split-over", type=int, help="devices that each hold a part of the model")
    flags = parser.parse_args()

    # The devices come first: TensorFlow cannot change them once it has used them.
    strategy = devices = None
    if flags.split_over:
        devices = distribution.devices_to_split_over(flags.split_over)
    else:
        mirrored = distribution.gpus if tf.config.list_physical_devices("GPU") else distribution.cpu_replicas
        strategy = mirrored(flags.replicas)

    paths = sorted(flags.data_dir.glob("*.npz")) if flags.data_dir else []
    if flags.data_dir and len(paths) < 5:
        sys.exit(f"--data-dir {flags.data_dir}: it has {len(paths)} .npz files; at least 5 are needed")
    held_out = paths[4::5]
    sizes = {"side": flags.volume, "seed": flags.seed, "batch_size": flags.batch_size}
    train_input_fn = volumes([path for path in paths if path not in held_out], shuffle=True, **sizes)
    eval_input_fn = volumes(held_out, shuffle=False, **sizes)

    keras.utils.set_random_seed(flags.seed)
    with tf.device("CPU:0"):  # only the Estimator's copy is on GPUs
        model = build_model(flags.volume, flags.filters)
    say_memory(model, flags.batch_size, flags.split_over or 1)
    if devices:
        model = et.split_over(model, devices)
    config = et.RunConfig(
        flags.model_dir,
        tf_random_seed=flags.seed,
        train_distribute=strategy,
        eval_distribute=strategy,
        resume_input=True,
    )
    estimator = et.model_to_estimator(model, config=config)
    hooks = [et.TimingHook(flags.model_dir), et.ProgressHook()]
    estimator.train(train_input_fn, hooks=hooks, max_steps=flags.max_steps)
    metrics = estimator.evaluate(eval_input_fn)
    print(", ".join(f"{name} {value:.4g}" for name, value in metrics.items()))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the steps done are saved, as after Ctrl-C
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues")
