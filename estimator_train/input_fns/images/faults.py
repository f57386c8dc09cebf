"""Explains why image files cannot be decoded."""

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from estimator_train._engine.host.dataset_iterators import iterate
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train.input_fns.images.bounds import MAX_PIXELS
from estimator_train.input_fns.images.decoding import ImageSize, decoded, numbered, size_in_header


class Fault(NamedTuple):
    """Says what is wrong with a file and how to mend it. A file that cannot be read may be intact: do not delete it."""

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
        if os.fsdecode(path).lower().endswith((".heic", ".heif")):
            return Fault("cannot be decoded: TensorFlow reads no HEIC (convert it to JPEG)", "convert it")
        try:
            height, width = size_in_header(encoded).numpy().tolist()
        except tf.errors.OpError:  # the header is damaged
            return Fault("cannot be decoded: no readable image", "delete it")
    if height < 2**31 and height * width > MAX_PIXELS:
        return Fault(
            f"cannot be decoded: its {width} x {height} pixels exceed {MAX_PIXELS} (scale it down)", "delete it"
        )
    return Fault("cannot be decoded: no readable image", "delete it")


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
