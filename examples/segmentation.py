"""Finds the ruled lines of tables with a U-Net, fed by a Python generator that turns, flips and scales on the fly.

    python examples/segmentation.py --image-size 128
    python examples/segmentation.py --replicas 2
    python examples/segmentation.py --data-dir FOLDER

FOLDER has images/NAME.jpeg (or .jpg, .png) and, of the same size, masks/rows/NAME.png and masks/columns/NAME.png, whose
pixels that are not black are lines between rows and between columns; every fifth image is held out. Without one, the
script draws pages. docs/segmentation.md explains the program: copy it, and change what differs for you.

Source: Ronneberger, Fischer and Brox, "U-Net" (2015), with `filters` instead of 64 and with padded convolutions, which
keep the size of the image.
"""

import argparse
import functools
import math
import signal
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras as keras
from PIL import Image, ImageDraw

import estimator_train as et
from estimator_train import distribution, input_fns, memory_estimate
from estimator_train.input_fns import Skipped  # by its own name, so that workers need not import TensorFlow

MASKS = ("rows", "columns")
POOLINGS = 4
SUFFIXES = (".jpeg", ".jpg", ".png")


# The data: uint8 images of shape (height, width, 3), and masks of 0 and 1 of shape (height, width, number of masks).


def list_samples(folder):
    """Returns (path of the image, paths of its masks) for each image, in the order of names."""
    images = sorted(path for path in (folder / "images").glob("*") if path.suffix.lower() in SUFFIXES)
    if len(images) < 5:
        sys.exit(f"--data-dir {folder}: {folder / 'images'} has {len(images)} images; at least 5 are needed")
    samples = [(image, [folder / "masks" / name / f"{image.stem}.png" for name in MASKS]) for image in images]
    for image, masks in samples:
        for mask in masks:
            if not mask.is_file():
                sys.exit(f"--data-dir {folder}: {image} has no mask {mask}; an empty mask is a black image")
    return samples


def examples(samples, image_size, seed, epoch, first, input_context):
    """Yields (image, masks) of an epoch; with a seed, in a new order and changed at random, from example `first` on.

    They depend on the seed and the epoch alone, so each worker can draw its share, and a resumed training its rest.
    """
    order = np.arange(len(samples))
    if seed is not None:
        order = np.random.default_rng([seed, epoch]).permutation(len(samples))
    share = order[input_context.input_pipeline_id :: input_context.num_input_pipelines]
    for index in share[first:]:
        try:
            image, masks = read(samples[index], image_size[::-1])
        except OSError as error:
            yield Skipped(f"{samples[index][0]}: {error}")  # left out, and said once
            continue
        if seed is not None:
            image, masks = turned(image, masks, np.random.default_rng([seed, epoch, index]))
        yield np.asarray(image), np.stack([np.asarray(mask) > 127 for mask in masks], axis=-1).astype(np.uint8)


def read(sample, size):
    """Returns a sample as Pillow's images of a size in pixels, (width, height)."""
    path, mask_paths = sample
    with Image.open(path) as file:
        full_size, image = file.size, file.convert("RGB").resize(size, Image.Resampling.BILINEAR)
    masks = []
    for mask_path in mask_paths:
        with Image.open(mask_path) as file:
            if file.size != full_size:
                raise OSError(f"its mask {mask_path} has another size")
            white = file.convert("L").point(lambda value: 255 * (value > 0))
        masks.append(white.resize(size, Image.Resampling.BILINEAR))
    return image, masks


def turned(image, masks, rng):
    """Turns an image and its masks by up to 8 degrees, scales by 0.8 to 1.25 and flips, around the centre."""
    angle, scale = math.radians(rng.uniform(-8, 8)), math.exp(rng.uniform(-1, 1) * math.log(1.25))
    flip_x, flip_y = rng.choice([-1, 1], 2)
    a, b = math.cos(angle) * flip_x / scale, -math.sin(angle) * flip_y / scale
    d, e = math.sin(angle) * flip_x / scale, math.cos(angle) * flip_y / scale
    x, y = image.width / 2, image.height / 2
    places = (a, b, x - a * x - b * y, d, e, y - d * x - e * y)  # from pixels of the result to pixels of the image
    move = {"size": image.size, "method": Image.Transform.AFFINE, "data": places, "resample": Image.Resampling.BILINEAR}
    return image.transform(**move, fillcolor="white"), [mask.transform(**move) for mask in masks]


def input_fn_of(samples, image_size, batch_size, *, seed=None, workers=0):
    """Returns an input_fn: endless and changed at random with a seed, and otherwise each image once, as it is.

    input_fns.generator turns tf.data's AutoShard off, which cannot shard a generator: the replicas of this process take
    their batches from one generator in turn, and each worker process runs one over its own share of the images.
    """
    return input_fns.generator(
        functools.partial(examples, samples, image_size, seed),
        batch_size=batch_size,
        num_epochs=1 if seed is None else None,
        output_signature=(
            tf.TensorSpec((*image_size, 3), tf.uint8),
            tf.TensorSpec((*image_size, len(MASKS)), tf.uint8),
        ),
        elements_per_epoch=len(samples),
        workers=workers,
    )


def draw_pages(folder, number=240, side=512):
    """Draws pages with a ruled table and some words in the cells, and the masks of its lines."""
    for name in ("images", *(f"masks/{mask}" for mask in MASKS)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for index in range(number):
        rng = np.random.default_rng(index)
        paper = int(rng.integers(215, 250))
        page = Image.new("L", (side, side), paper)
        left, top, right, bottom = rng.integers([20, 40, 400, 380], [110, 130, 492, 492])
        xs, ys = (np.linspace(*ends, rng.integers(3, 9), dtype=int) for ends in ((left, right), (top, bottom)))
        for x, y in rng.integers(0, side - 60, (60, 2)):
            ImageDraw.Draw(page).text((x, y), "lorem ipsum"[: rng.integers(3, 12)], 60)
        ink, width = int(rng.integers(30, 120)), int(rng.integers(8, 13))
        lines = {"rows": [(left, y, right, y) for y in ys], "columns": [(x, top, x, bottom) for x in xs]}
        angle = rng.uniform(-3, 3)
        for name in MASKS:
            mask = Image.new("L", page.size)
            for line in lines[name]:
                ImageDraw.Draw(page).line(line, ink, width)
                ImageDraw.Draw(mask).line(line, 255, width)
            mask.rotate(angle).save(folder / "masks" / name / f"{index:04}.png")
        light = np.linspace(*rng.uniform(0.85, 1.1, 2), side)
        scan = np.asarray(page.rotate(angle, fillcolor=paper)) * light + rng.normal(0, 5, (side, side))
        Image.fromarray(scan.clip(0, 255).astype(np.uint8)).save(folder / "images" / f"{index:04}.jpeg")


# The model, and its loss and metric, of each image: replicas that average them agree with a single device.


def build_model(image_size, filters, learning_rate, poolings=POOLINGS):
    """Returns a compiled model from uint8 images to a probability for each pixel and mask."""
    if any(side < 1 or side % 2**poolings for side in image_size):
        sys.exit(f"--image-size: both sides must be multiples of {2**poolings} pixels, got {image_size}")
    image = keras.Input((*image_size, 3), dtype="uint8", name="image")
    features, skips = keras.layers.Rescaling(1 / 255)(image), []
    for level in range(poolings):
        features = convolutions(features, filters * 2**level)
        skips.append(features)
        features = keras.layers.MaxPooling2D()(features)
    features = convolutions(features, filters * 2**poolings)
    for level in reversed(range(poolings)):
        features = keras.layers.Conv2DTranspose(filters * 2**level, 2, strides=2)(features)
        features = convolutions(keras.layers.Concatenate()([skips[level], features]), filters * 2**level)
    masks = keras.layers.Conv2D(len(MASKS), 1, activation="sigmoid", dtype="float32", name="masks")(features)
    model = keras.Model(image, masks, name="unet")
    model.compile(keras.optimizers.Adam(learning_rate), bce_dice_loss, metrics=["binary_accuracy", dice_coefficient])
    return model


def convolutions(features, filters):
    for _ in range(2):
        features = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(features)
        features = keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.9)(features))
    return features


def bce_dice_loss(truth, prediction, positive_weight=4.0):
    """Returns 1 minus the Dice coefficient, plus the cross-entropy, in which the few pixels of lines weigh more."""
    truth = tf.cast(truth, tf.float32)
    entropy = (1 + (positive_weight - 1) * truth) * keras.backend.binary_crossentropy(truth, prediction)
    return 1 - dice(truth, prediction) + tf.reduce_mean(entropy, axis=[1, 2, 3])


def dice_coefficient(truth, prediction):
    return dice(tf.cast(truth, tf.float32), tf.cast(prediction > 0.5, tf.float32))


def dice(truth, prediction):
    axes = [1, 2, 3]
    overlap = tf.reduce_sum(truth * prediction, axes)
    return (2 * overlap + 1) / (tf.reduce_sum(truth, axes) + tf.reduce_sum(prediction, axes) + 1)  # 1 if both are empty


# The training.


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model-dir", type=Path, default="runs/segmentation", help="where the run goes on [%(default)s]"
    )
    parser.add_argument("--data-dir", type=Path, help="folder of images and masks; without it, pages are drawn")
    parser.add_argument("--image-size", type=int, nargs="+", default=[512], help="height and width [%(default)s]")
    parser.add_argument("--filters", type=int, default=8, help="of the first convolution [%(default)s]")
    parser.add_argument("--batch-size", type=int, default=4, help="images a step on each replica [%(default)s]")
    parser.add_argument("--epochs", type=int, default=4, help="[%(default)s]")
    parser.add_argument("--learning-rate", type=float, default=5e-3, help="of Adam [%(default)s]")
    parser.add_argument("--workers", type=int, default=2, help="processes of the generator [%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="[%(default)s]")
    parser.add_argument("--replicas", type=int, default=1, help="devices [%(default)s]")
    flags = parser.parse_args()
    # The devices come first: TensorFlow cannot change them once it has used them.
    mirrored = distribution.gpus if tf.config.list_physical_devices("GPU") else distribution.cpu_replicas
    strategy = mirrored(flags.replicas)

    folder = flags.data_dir or flags.model_dir / "pages"
    if not flags.data_dir:
        draw_pages(folder)
    samples, image_size = list_samples(folder), (flags.image_size[0], flags.image_size[-1])
    held_out = samples[4::5]
    training = [sample for sample in samples if sample not in held_out]
    train_input_fn = input_fn_of(training, image_size, flags.batch_size, seed=flags.seed, workers=flags.workers)
    eval_input_fn = input_fn_of(held_out, image_size, flags.batch_size)

    keras.utils.set_random_seed(flags.seed)
    model = build_model(image_size, flags.filters, flags.learning_rate)
    (memory,) = memory_estimate.estimate(model, flags.batch_size)
    free = memory_estimate.HEADROOM * memory.total / 1e6
    print(f"memory: about {memory.total / 1e6:.0f} MB on each device; leave {free:.0f} MB free", flush=True)

    config = et.RunConfig(
        flags.model_dir,
        tf_random_seed=flags.seed,
        train_distribute=strategy,
        eval_distribute=strategy,
        resume_input=True,
    )
    estimator = et.model_to_estimator(model, config=config)
    steps = math.ceil(len(training) / (flags.batch_size * flags.replicas))  # an epoch
    hooks = [et.TimingHook(flags.model_dir), et.ProgressHook()]
    train_spec = et.TrainSpec(train_input_fn, flags.epochs * steps, hooks)
    eval_spec = et.EvalSpec(eval_input_fn, None, exporters=et.BestCheckpointExporter(), every_steps=steps)
    metrics, _ = et.train_and_evaluate(estimator, train_spec, eval_spec)
    print(", ".join(f"{name} {value:.4g}" for name, value in metrics.items()))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the steps done are saved, as after Ctrl-C
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues")
