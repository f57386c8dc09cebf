"""Keeps decoded images in memory or in a directory, for random access by number, which `Dataset.cache` has not."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import filelock
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from estimator_train._engine.host.array_store import Column, free_bytes, read_manifest
from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train._engine.host.files import size_and_time, write_whole
from estimator_train._engine.host.full_disk import explaining_full_disk
from estimator_train._engine.host.host_memory import aligned_empty
from estimator_train._engine.remedies import RemediedError, Setting
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train.input_fns.images.decoding import ImageSize, decoded, numbered
from estimator_train.input_fns.images.faults import fault_of_file

_FORMAT = 1  # version of the file format in a cache directory

Images: TypeAlias = Iterator[tuple[np.ndarray, int]]  # each with its index into the paths
ReadImages: TypeAlias = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]  # indices to images and their indices


class DamagedImageError(RemediedError, tf.errors.InvalidArgumentError):
    """A file cannot be decoded; a TensorFlow error, as where files are decoded for each batch."""

    remedies = (Setting("on_error", 'pass on_error="skip"'),)
    form = "{} or {}"

    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__(None, None, self.spelled())


def open_cache(
    cache: str | os.PathLike[str], paths: Sequence[str], image_size: ImageSize, *, skip: bool, **how: Any
) -> ReadImages:
    """Fills the cache and returns a function that reads from it.

    The function maps indices into `paths` to the value that `decode_own_channels` returns for these files. Images are
    stored in the order of `paths` as `decoded` returns them, which gets `how`: float32, with one channel if grayscale.
    With `skip`, those that cannot be decoded are left out.

    `cache` is "memory" or a directory. A file in the directory is valid for what `key_of_files` is given. If several
    processes need the same file, the first one writes it; if that process is interrupted, the partial file is ignored.
    So is a file without images that can be decoded now, because a file system that fails for a while leaves the same
    gaps as damaged images. Raises MemoryError or OSError if the images do not fit, and DamagedImageError.
    """
    with eager_mode():  # the input_fn may be called in a graph
        images = _images(paths, image_size, skip, **how)
        if cache == "memory":
            column = Column((image_size[0] * image_size[1],), np.float32)
            channels = _fill(column, images, len(paths), image_size, directory=None)
        else:
            key = key_of_files(paths, image_size, how["fast"], how["resize"], how["orient"])
            column, channels = _open_directory(Path(cache), images, paths, image_size, key)
            # It may have been filled by a call that skipped files.
            _check_decoded(_left_out(paths, channels), skip)
    return _reader(column.array(), channels, image_size)


def _images(paths: Sequence[str], image_size: ImageSize, skip: bool, **how: Any) -> Images:
    """Yields (image, index into `paths`) for each image that can be decoded."""
    files = tf.constant([os.fsencode(path) for path in paths], tf.string)
    images = decoded(numbered(files), image_size, **how).prefetch(tf.data.AUTOTUNE)
    due = 0
    with tqdm(total=len(paths), desc="decoding images", unit="", disable=not sys.stderr.isatty()) as progress:
        for image, _, place in iterate(images):
            place = int(place)
            _check_decoded(paths[due:place], skip)
            yield image.numpy(), place
            progress.update(place + 1 - due)
            due = place + 1
    _check_decoded(paths[due:], skip)


def _check_decoded(left_out: Sequence[str], skip: bool) -> None:
    if left_out and not skip:
        raise DamagedImageError(f"{left_out[0]} {fault_of_file(left_out[0])}")


def _open_directory(
    directory: Path, images: Images, paths: Sequence[str], image_size: ImageSize, key: str
) -> tuple[Column, np.ndarray]:
    """Returns a column of the images' channels, and an array of each image's number of channels."""
    directory.mkdir(parents=True, exist_ok=True)
    name = directory / f"images-{key}"
    data, manifest = name.with_suffix(".float32"), name.with_suffix(".json")
    plane = image_size[0] * image_size[1]
    with explaining_full_disk(directory), filelock.FileLock(name.with_suffix(".lock")):
        # The manifest is written last; without it, the data file is incomplete.
        again = "the images are decoded again"
        channels = read_manifest(manifest, lambda content: np.array(content["channels"], np.uint8), again)
        if channels is not None and _can_decode_any(_left_out(paths, channels)):
            manifest.unlink()
            data.unlink(missing_ok=True)  # not emptied: other processes may have mapped it
            channels = None
        if channels is None:
            channels = _fill_file(data, images, len(paths), image_size)
            content = {"image_size": image_size, "paths": paths, "channels": channels.tolist()}
            write_whole(manifest, json.dumps(content))
    column = Column((plane,), np.float32, data, rows=int(channels.sum(dtype=np.int64)))
    if data.stat().st_size != column.nbytes:
        raise ValueError(f"{data} is damaged; delete it and {manifest}")
    return column, channels


def _left_out(paths: Sequence[str], channels: np.ndarray) -> list[str]:
    return [paths[place] for place in np.flatnonzero(channels == 0).tolist()]


def _can_decode_any(paths: list[str]) -> bool:
    files = tf.constant([os.fsencode(path) for path in paths], tf.string)
    return bool(paths) and any(True for _ in iterate(decoded(numbered(files), (1, 1)).take(1)))


def _fill_file(data: Path, images: Images, number: int, image_size: ImageSize) -> np.ndarray:
    data.write_bytes(b"")  # a process that was killed may have left a part
    try:
        column = Column((image_size[0] * image_size[1],), np.float32, data)
        return _fill(column, images, number, image_size, data.parent)
    except BaseException:
        data.unlink()
        raise


def _fill(column: Column, images: Images, number: int, image_size: ImageSize, directory: Path | None) -> np.ndarray:
    """Appends the channels of the images to the column; returns an array of each image's number of channels."""
    free = free_bytes(directory)
    _check_room(directory, free, number, image_size)
    channels = np.zeros(number, np.uint8)
    for image, place in images:
        channels[place] = image.shape[-1]
        # A color image is stored as it is, in the place of three gray ones.
        column.append(image.reshape(image.shape[-1], -1), at_most=3 * number)
        if directory is None and column.nbytes > free:
            _check_room(directory, free, number, image_size, channels=3)
    return channels


def key_of_files(paths: Sequence[str], image_size: ImageSize, *how: bool | str) -> str:
    """Returns a hex digest of the files' current state and of the settings that the decoded images depend on."""
    key = hashlib.sha256(json.dumps([_FORMAT, image_size, *how]).encode())
    for path in paths:
        # Not the inode or the time of its last change: these differ if data are unpacked or mounted again.
        key.update(json.dumps([path, *size_and_time(path)]).encode())
    return key.hexdigest()[:16]


def _check_room(directory: Path | None, free: float, number: int, image_size: ImageSize, channels: int = 1) -> None:
    needed = number * image_size[0] * image_size[1] * channels * 4
    if needed > free:
        height, width = image_size
        takes = f"the cache of {number} images of {height} x {width} takes at least {needed / 1e9:.2f} GB"
        has = f"has only {free / 1e9:.2f} GB free; use another cache, none, or a smaller image_size"
        if directory is None:
            raise MemoryError(f"{takes}, but memory {has}")
        raise OSError(f"{takes}, but the disk of {directory} {has}")


def _reader(planes: np.ndarray, channels: np.ndarray, image_size: ImageSize) -> ReadImages:
    starts = np.cumsum(channels, dtype=np.int64) - channels
    all_rgb = bool(np.isin(channels, (0, 3)).all())

    def read(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = np.flatnonzero(channels[numbers])
        numbers = numbers[places]
        if all_rgb:
            return _taken(planes, starts[numbers], (*image_size, 3)), places
        if (channels[numbers] == 1).all():
            return _taken(planes, starts[numbers], (*image_size, 1)), places
        images = aligned_empty((len(numbers), *image_size, 3), np.float32)
        for image, start, number in zip(images, starts[numbers], channels[numbers], strict=True):
            image[:] = planes[start : start + number].reshape(*image_size, number)
        return images, places

    def read_images(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        images, places = tf.numpy_function(read, [numbers], (tf.float32, tf.int64))
        return tf.ensure_shape(images, (None, *image_size, None)), tf.ensure_shape(places, (None,))

    return read_images


def _taken(planes: np.ndarray, starts: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Returns the images of one shape whose first planes are at `starts`."""
    images, channels = aligned_empty((len(starts), *shape), np.float32), shape[-1]
    rows = planes.reshape(-1, channels * planes.shape[1])
    # Unlike rows[...], np.take releases the GIL while it copies.
    np.take(rows, starts // channels, axis=0, out=images.reshape(len(starts), rows.shape[1]), mode="clip")
    return images
