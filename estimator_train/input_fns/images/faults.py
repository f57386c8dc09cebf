"""Explains why image files cannot be decoded."""

import math
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train.input_fns.images.bounds import MAX_PIXELS, NO_SIZE
from estimator_train.input_fns.images.decoding import ImageSize, decoded, numbered, size_in_header
from estimator_train.input_fns.images.pillow import read_but_refused

DELETE = "delete it"  # the remedy of a damaged image
# The kinds of files of the High Efficiency Image File Format, by their bytes 4 to 12.
_HEIF = {f"ftyp{brand}".encode(): "HEIC" for brand in ("heic", "heix", "heim", "heis", "hevc", "mif1", "msf1")}
_HEIF |= {f"ftyp{brand}".encode(): "AVIF" for brand in ("avif", "avis")}


class Fault(NamedTuple):
    """Says what is wrong with a file and how to mend it. Do not delete a file that may be intact."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


def fault_of_file(path: str | bytes) -> Fault:
    """Returns why a file cannot be decoded, such as "no readable image"; call it only for such a file."""
    with eager_mode():
        try:
            encoded = tf.io.read_file(os.fsencode(path))
        except tf.errors.PermissionDeniedError:
            return Fault("cannot be read: permission denied", "make it readable")
        except tf.errors.NotFoundError:
            return Fault("cannot be read: there is no such file", "restore it")
        except tf.errors.OpError as error:
            return Fault(f"cannot be read: {error.message.rpartition('; ')[2]}", "try again")
    content = encoded.numpy()
    if os.fsdecode(path).lower().endswith((".heic", ".heif")):
        return Fault("cannot be decoded: TensorFlow reads no HEIC", "convert it to JPEG")
    if kind := _HEIF.get(content[4:12]):
        return Fault(f"cannot be decoded: TensorFlow reads no {kind}", "convert it to JPEG")
    if refused := read_but_refused(content):
        what, remedy = refused
        return Fault(f"cannot be decoded: {what}", remedy)
    if (size := _size_in_header(encoded)) and math.prod(size) > MAX_PIXELS:  # Pillow refuses the largest
        return Fault("cannot be decoded: its {} x {} pixels exceed {}".format(*size, MAX_PIXELS), "scale it down")
    return Fault("cannot be decoded: no readable image", DELETE)


def _size_in_header(encoded: tf.Tensor) -> tuple[int, int] | None:
    """Returns (width, height) of a JPEG or PNG; None for another format or a damaged header."""
    with eager_mode():
        try:
            height, width = size_in_header(encoded).numpy().tolist()
        except tf.errors.OpError:
            return None
    return (width, height) if height < NO_SIZE[0] else None


def faults_among(paths: Sequence[str], image_size: ImageSize, **how: Any) -> dict[str, Fault]:
    """Decodes files, and returns the faults of those that cannot be decoded; a bar shows the progress on a terminal."""
    with eager_mode():
        files = tf.constant([os.fsencode(path) for path in paths], tf.string)
        is_decoded = np.zeros(len(paths), bool)
        progress = {"total": len(paths), "desc": "looking for damaged images", "unit": "", "leave": False}
        with tqdm(**progress, disable=not sys.stderr.isatty()) as bar:
            for _, _, place in iterate(decoded(numbered(files), image_size, **how)):
                is_decoded[int(place)] = True
                bar.update()
    bad = [path for path, is_good in zip(paths, is_decoded, strict=True) if not is_good]
    return {path: fault_of_file(path) for path in bad}
