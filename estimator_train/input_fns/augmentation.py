"""augmented: changes training images at random, on the device that trains on them."""

import dataclasses
import math
from collections.abc import Callable, Iterable

import tensorflow as tf

from estimator_train._engine.autograph import unconverted
from estimator_train._engine.input_fns.frozen_features import FrozenFeatures
from estimator_train._engine.keras_forms import shown
from estimator_train._engine.remedies import UnsuitableError
from estimator_train.input_fns.changed_batches import ChangedBatches

_DEGREES = 15.0
_ZOOM = 0.15  # share of the sides
_SHIFT = 0.1  # share of the sides
_BRIGHTNESS = 0.2
_CONTRAST = 0.2
_CUTOUT = 0.5  # share of the sides
_MIXUP_ALPHA = 0.2
_CROP = 0.5, 1.0  # share of the sides

NAMES = ("flip", "rotate", "zoom", "shift", "brightness", "contrast", "cutout", "mixup", "crop", "cutmix")
PRESETS = {"light": ("flip", "zoom", "shift"), "medium": ("flip", "rotate", "zoom", "shift", "brightness", "contrast")}


def augmented(input_fn: Callable[..., tf.data.Dataset], names: str | Iterable[str]) -> ChangedBatches:
    """Returns `input_fn` with random augmentation of its images when a Keras model's Estimator trains on them.

        >>> images, labels = np.zeros([4, 8, 8, 3], np.float32), np.float32([[0], [1], [0], [1]])
        >>> train_input_fn = et.input_fns.augmented(et.input_fns.arrays(images, labels), "light, cutout")
        >>> images, labels = next(iter(train_input_fn()))  # call it yourself to look at augmented images
        >>> images.shape
        TensorShape([4, 8, 8, 3])

    Images are changed on the device that trains on them; evaluate and predict use the original images. The changes
    depend only on the run's seed and the batch's position in the run.

    Args:
      input_fn: an input_fn of batches of float images of shape (batch, height, width, channels) in [0, 1].
      names: one or more of the following, as an iterable or a comma-separated string; applied in this order:

        - "crop": cuts out a random part of half to all of each side, of the same proportions, and enlarges it.
        - "flip": flips left to right with probability 1/2.
        - "rotate": rotates by up to 15 degrees.
        - "zoom": zooms in or out by up to 15 %.
        - "shift": shifts by up to a tenth of each side. Rotate, zoom and shift fill empty borders by reflection.
        - "brightness": adds a value between -0.2 and 0.2 to all pixels.
        - "contrast": scales the distance of pixels from their channel's mean by 0.8 to 1.2.
        - "cutout": fills a rectangle of half of each side with the image's mean (DeVries and Taylor, 2017).
        - "mixup": mixes each image and its label with another one of the batch (Zhang et al., 2017), with a weight
          drawn from Beta(0.2, 0.2). Labels must be floats, for example one-hot.
        - "cutmix": pastes a rectangle of another image, and mixes the labels, which must be floats, by its area (Yun et
          al., 2019).
        - "light": flip, zoom and shift.
        - "medium": flip, rotate, zoom, shift, brightness and contrast.

    Raises:
      ValueError: a name is unknown, or `input_fn` comes from `frozen_features`. From `train`: the batches are not
        images, or have no float labels for mixup or cutmix.
    """
    if isinstance(input_fn, FrozenFeatures):
        raise ValueError(
            "frozen_features() computes the features of each image only once, so the image cannot be augmented; leave "
            "out augmented() or frozen_features()"
        )
    return ChangedBatches(input_fn, Augmentation(_parsed(names)))


def _parsed(names: str | Iterable[str]) -> tuple[str, ...]:
    """Returns the augmentations requested by `names`, presets expanded, each once, in the order of `NAMES`."""
    if isinstance(names, str):
        names = names.split(",")
    elif isinstance(names, Iterable):
        names = list(names)
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"augmentations are given by their names, {', '.join([*NAMES, *PRESETS])}, got {shown(names)}; make "
            "layers a part of the model"
        )
    asked = set()
    for name in map(str.strip, names):
        if name not in NAMES and name not in PRESETS:
            raise ValueError(f"there is no augmentation {name!r}; choose from {', '.join([*NAMES, *PRESETS])}")
        asked |= set(PRESETS.get(name, [name]))
    return tuple(name for name in NAMES if name in asked)


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """Augments a batch, for `augmented`; `names` are some of `NAMES`, in their order."""

    names: tuple[str, ...]

    @unconverted
    def __call__(self, batch: tuple, seed: tf.Tensor) -> tuple:
        """Returns a batch of the same structure; `seed` is an int64 tensor of shape (2,)."""
        images, *rest = batch
        if not (tf.is_tensor(images) and images.dtype.is_floating and images.shape.rank == 4):
            raise UnsuitableError(
                "augmentation takes float images of shape (batch, height, width, channels); leave it out for "
                f"{images!r}"
            )
        # The seeds of the first eight do not depend on the number of augmentations, so old runs continue as they began.
        seeds = dict(zip(NAMES[:8], tf.unstack(tf.random.split(seed, 8)), strict=True))
        if "crop" in self.names:
            images = _cropped(images, tf.random.fold_in(seed, 8))
        if "flip" in self.names:
            images = _flipped(images, seeds["flip"])
        moves = {name: seed for name, seed in seeds.items() if name in {"rotate", "zoom", "shift"} & set(self.names)}
        if moves:
            images = _moved(images, moves)
        for name, change in (("brightness", _brightened), ("contrast", _contrasted), ("cutout", _cut_out)):
            if name in self.names:
                images = change(images, seeds[name])
        if "mixup" in self.names:
            images, *rest = _mixed(images, rest, seeds["mixup"])
        if "cutmix" in self.names:
            images, *rest = _pasted(images, rest, tf.random.fold_in(seed, 9))
        return images, *rest


def _uniform(images: tf.Tensor, seed: tf.Tensor, low: float, high: float, values: int = 1) -> tf.Tensor:
    """Returns random numbers of shape (batch, values) for the images of a batch."""
    return tf.random.stateless_uniform([tf.shape(images)[0], values], seed, low, high, images.dtype)


def _for_pixels(numbers: tf.Tensor) -> tf.Tensor:
    """Reshapes numbers of shape (batch, 1) to broadcast over the pixels of images."""
    return numbers[:, :, tf.newaxis, tf.newaxis]


def _flipped(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    return tf.where(_for_pixels(_uniform(images, seed, 0, 1)) < 0.5, tf.reverse(images, [2]), images)


def _cropped(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    seeds = tf.unstack(tf.random.split(seed, 2))
    sides = _uniform(images, seeds[0], *_CROP)
    starts = _uniform(images, seeds[1], 0, 1, values=2) * (1 - sides)
    boxes = tf.cast(tf.concat([starts, starts + sides], axis=1), tf.float32)
    shape = tf.shape(images)
    cropped = tf.image.crop_and_resize(images, boxes, tf.range(shape[0]), shape[1:3])
    return tf.ensure_shape(tf.cast(cropped, images.dtype), images.shape)


def _moved(images: tf.Tensor, seeds: dict[str, tf.Tensor]) -> tf.Tensor:
    """Rotates, zooms and shifts images, each only if it has a seed, with a single interpolation."""
    shape = tf.shape(images)
    none = tf.zeros([shape[0], 1], images.dtype)
    angle, scale, shift = none, none + 1, tf.concat([none, none], axis=1)
    if "rotate" in seeds:
        most = math.radians(_DEGREES)
        angle = _uniform(images, seeds["rotate"], -most, most)
    if "zoom" in seeds:
        scale = _uniform(images, seeds["zoom"], 1 - _ZOOM, 1 + _ZOOM)
    if "shift" in seeds:
        shift = _uniform(images, seeds["shift"], -_SHIFT, _SHIFT, values=2)
    # The source of each pixel (x, y) of the result: rotated and scaled about the centre, then shifted.
    width, height = tf.cast(shape[2], images.dtype), tf.cast(shape[1], images.dtype)
    x, y = (width - 1) / 2, (height - 1) / 2
    cos, sin = tf.cos(angle) * scale, tf.sin(angle) * scale
    from_x = x - cos * x + sin * y + shift[:, :1] * width
    from_y = y - sin * x - cos * y + shift[:, 1:] * height
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=tf.cast(tf.concat([cos, -sin, from_x, sin, cos, from_y, none, none], axis=1), tf.float32),
        output_shape=shape[1:3],
        interpolation="BILINEAR",
        fill_mode="REFLECT",
        fill_value=0.0,
    )
    return tf.ensure_shape(moved, images.shape)


def _brightened(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(images + _for_pixels(_uniform(images, seed, -_BRIGHTNESS, _BRIGHTNESS)), 0, 1)


def _contrasted(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    mean = tf.reduce_mean(images, axis=[1, 2], keepdims=True)
    factor = _for_pixels(_uniform(images, seed, 1 - _CONTRAST, 1 + _CONTRAST))
    return tf.clip_by_value(mean + (images - mean) * factor, 0, 1)


def _cut_out(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    centres = _uniform(images, seed, 0, 1, values=2)
    return tf.where(_rectangles(images, centres, _CUTOUT), tf.reduce_mean(images, axis=[1, 2], keepdims=True), images)


def _rectangles(images: tf.Tensor, centres: tf.Tensor, shares: float | tf.Tensor) -> tf.Tensor:
    """Returns which pixels are in rectangles with these centres and shares of the sides: (batch, height, width, 1)."""

    def is_inside(side: tf.Tensor, centre: tf.Tensor) -> tf.Tensor:
        pixels = (tf.cast(tf.range(side), images.dtype) + 0.5) / tf.cast(side, images.dtype)
        return tf.abs(pixels - centre) < shares / 2

    rows = is_inside(tf.shape(images)[1], centres[:, :1])[:, :, tf.newaxis, tf.newaxis]
    columns = is_inside(tf.shape(images)[2], centres[:, 1:])[:, tf.newaxis, :, tf.newaxis]
    return rows & columns


def _check_labels(rest: list[tf.Tensor], name: str) -> None:
    if not rest or not all(tf.is_tensor(part) and part.dtype.is_floating for part in rest):
        raise UnsuitableError(
            f"{name} needs float labels, such as one-hot ones, got {rest or 'none'}; leave out {name}"
        )


def _pasted(images: tf.Tensor, rest: list[tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
    _check_labels(rest, "cutmix")
    seeds = tf.unstack(tf.random.split(seed, 3))
    others = tf.random.experimental.stateless_shuffle(tf.range(tf.shape(images)[0]), seeds[0])
    sides = tf.sqrt(_uniform(images, seeds[1], 0, 1))
    is_pasted = _rectangles(images, _uniform(images, seeds[2], 0, 1, values=2), sides)
    share = tf.reduce_mean(tf.cast(is_pasted, images.dtype), axis=[1, 2, 3])  # without what is beyond the borders

    def mixed(values: tf.Tensor) -> tf.Tensor:
        other = tf.cast(tf.reshape(share, [-1] + [1] * (values.shape.rank - 1)), values.dtype)
        return (1 - other) * values + other * tf.gather(values, others)

    return tf.where(is_pasted, tf.gather(images, others), images), *map(mixed, rest)


def _mixed(images: tf.Tensor, rest: list[tf.Tensor], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
    _check_labels(rest, "mixup")
    seeds = tf.unstack(tf.random.split(seed, 3))
    # For gamma variables a and b, a / (a + b) has a beta distribution.
    count = tf.shape(images)[0]
    a, b = (tf.random.stateless_gamma([count], each, _MIXUP_ALPHA, dtype=tf.float64) for each in seeds[:2])
    share = tf.math.divide_no_nan(a, a + b)
    others = tf.random.experimental.stateless_shuffle(tf.range(count), seeds[2])

    def mixed(values: tf.Tensor) -> tf.Tensor:
        own = tf.cast(tf.reshape(share, [-1] + [1] * (values.shape.rank - 1)), values.dtype)
        return own * values + (1 - own) * tf.gather(values, others)

    return tuple(mixed(part) for part in (images, *rest))
