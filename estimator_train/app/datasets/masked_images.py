"""Images and their masks in a directory, read and augmented one by one, without TensorFlow so that workers start fast.

DIRECTORY/images/NAME.png, .jpg or .jpeg
DIRECTORY/masks/MASK/NAME.png, of the image's size; every pixel that is not black belongs to the mask
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from estimator_train._engine.host.generator_stream import Skipped

if TYPE_CHECKING:
    import tensorflow as tf

_SUFFIXES = (".png", ".jpg", ".jpeg")
_UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)  # Pillow raises all of these
_BILINEAR = Image.Resampling.BILINEAR
_WHITE = (255, 255, 255)


class Sample(NamedTuple):
    """Paths of an image and its masks."""

    image: Path
    masks: list[Path]


def list_samples(directory: str | os.PathLike[str], mask_names: Iterable[str]) -> list[Sample]:
    """Returns the `Sample` of every image, sorted by name.

        >>> from estimator_train.app.datasets import drawn_tables
        >>> drawn_tables.draw_pages("tables", 5)
        >>> samples = list_samples("tables", ["rows", "columns"])
        >>> samples[0].image.name
        'page-0000.jpeg'

    Raises:
      FileNotFoundError: there are no images, or an image lacks a mask.
      ValueError: a mask and its image differ in size, or an image or mask is a directory, pipe or device. The size of
        an unreadable file is not checked.
    """
    images = sorted(path for path in Path(directory, "images").glob("*") if path.suffix.lower() in _SUFFIXES)
    if not images:
        raise FileNotFoundError(f"there are no images ({', '.join(_SUFFIXES)}) in {Path(directory, 'images')}")
    directories = [Path(directory, "masks", name) for name in mask_names]
    samples = [Sample(image, [masks / f"{image.stem}.png" for masks in directories]) for image in images]
    for path in (path for image, masks in samples for path in (image, *masks)):
        if path.exists() and not path.is_file():
            # Opening a pipe that nothing writes to would block forever.
            raise ValueError(f"{path} is a directory, pipe, socket or device, not an image file: remove it")
    for image, masks in samples:
        for mask in masks:
            if not mask.exists():
                raise FileNotFoundError(f"{image} has no mask {mask}; use a black image for an empty mask")
            sizes = _size(image), _size(mask)
            if None not in sizes and sizes[0] != sizes[1]:
                raise ValueError(f"{mask} is {_text(sizes[1])} pixels, but its image {image} is {_text(sizes[0])}")
    return samples


def _size(path):
    try:
        with _open(path) as image:
            return image.size
    except _UNREADABLE:
        return None


def _open(path):
    # Some of Pillow's other formats start programs or use unbounded memory.
    return Image.open(path, formats=("JPEG", "PNG"))


def _text(size):
    return "{}x{}".format(*size)


def split(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Returns the training samples and the evaluation samples, which are every fifth.

    Raises:
      ValueError: there are fewer than five samples, or no sample of one part can be read.
    """
    if len(samples) < 5:
        raise ValueError(f"every fifth image is held out for evaluation, so at least 5 are needed, got {len(samples)}")
    parts = [sample for index, sample in enumerate(samples) if index % 5 != 4], samples[4::5]
    for part, purpose in zip(parts, ("train", "evaluate"), strict=True):
        if all(None in map(_size, (sample.image, *sample.masks)) for sample in part):
            raise ValueError(f"none of the images to {purpose} on can be read with its masks, such as {part[0].image}")
    return parts


def examples(
    samples: Sequence[Sample],
    image_size: tuple[int, int],
    *,
    seed: int | None = None,
    epoch: int = 0,
    first: int = 0,
    input_context: tf.distribute.InputContext | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray] | Skipped]:
    """Yields (image, masks) as uint8 arrays, and `Skipped` for samples whose files cannot be read.

    Images have shape (height, width, 3); masks have shape (height, width, number of masks) and values 0 and 1. They
    depend only on the arguments, not on the number of workers.

    Args:
      samples: list of `Sample`.
      image_size: (height, width) that images and masks are resized to.
      seed: seed for each epoch's order, rotations, flips and scales. None yields the images in order, unchanged.
      epoch: number of the epoch.
      first: how many examples to skip at the start of this input pipeline's share.
      input_context: a `tf.distribute.InputContext`, or an object with its numbers; each input pipeline gets a share.
    """
    order = range(len(samples)) if seed is None else np.random.default_rng([seed, epoch]).permutation(len(samples))
    if input_context is not None:
        order = order[input_context.input_pipeline_id :: input_context.num_input_pipelines]
    for index in order[first:]:
        try:
            image, masks = _read(samples[index], image_size)
        except _UNREADABLE as error:
            yield Skipped(f"{samples[index].image}: {error}")
            continue
        if seed is not None:
            image, masks = _augmented(image, masks, np.random.default_rng([seed, epoch, index]))
        yield np.asarray(image), np.stack([np.asarray(mask) > 127 for mask in masks], axis=-1).astype(np.uint8)


def _read(sample, image_size):
    size = image_size[::-1]
    with _open(sample.image) as file:
        file.draft("RGB", size)  # decodes a JPEG at 1/8, 1/4 or 1/2 of its size if that is enough
        image = _in_8_bits(file).convert("RGB").resize(size, _BILINEAR)
    return image, [_read_mask(path, size) for path in sample.masks]


def _in_8_bits(image):
    if image.mode.startswith("I"):  # a PNG of 16 bits, which Pillow would clip at 255
        return Image.fromarray((np.asarray(image) // 256).astype(np.uint8))
    return image


def _read_mask(path, size):
    with _open(path) as file:
        return file.convert("L").point(lambda value: 255 * (value > 0)).resize(size, _BILINEAR)


def _augmented(image, masks, rng):
    """Rotates by up to 8 degrees, scales by 0.8 to 1.25 and flips, around the center, in one transformation."""
    angle, scale = math.radians(rng.uniform(-8, 8)), math.exp(rng.uniform(-1, 1) * math.log(1.25))
    flip_x, flip_y = rng.choice([-1, 1], 2)
    a, b = math.cos(angle) * flip_x / scale, -math.sin(angle) * flip_y / scale
    d, e = math.sin(angle) * flip_x / scale, math.cos(angle) * flip_y / scale
    x, y = image.width / 2, image.height / 2
    places = (a, b, x - a * x - b * y, d, e, y - d * x - e * y)  # maps pixels of the result to the image
    image = image.transform(image.size, Image.Transform.AFFINE, places, _BILINEAR, fillcolor=_WHITE)
    return image, [mask.transform(mask.size, Image.Transform.AFFINE, places, _BILINEAR) for mask in masks]
