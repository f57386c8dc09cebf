"""Writes rows of images as one image: a PNG file and an image summary for TensorBoard."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train.app.report.image_events import write_images


def write_image_grid(model_dir: str | os.PathLike[str], name: str, step: int, rows: np.ndarray) -> str:
    """Writes `model_dir`/images/`name`-`step`.png, and the same image to the event file; returns the PNG's path.

        >>> write_image_grid("runs/grid", "samples", 100, np.zeros((2, 3, 8, 8, 3)))
        'runs/grid/images/samples-000100.png'

    Args:
      name: name of the file, and tag in the event file.
      step: the global step.
      rows: float images in [0, 1] of shape (rows, columns, height, width, 3).
    """
    rows = np.asarray(rows)
    height, width = rows.shape[0] * rows.shape[2], rows.shape[1] * rows.shape[3]
    pixels = rows.swapaxes(1, 2).reshape(height, width, 3)
    with eager_mode():
        png = tf.io.encode_png(np.uint8(np.round(255 * np.clip(pixels, 0, 1)))).numpy()
    path = os.path.join(model_dir, "images", f"{name}-{step:06d}.png")
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(png)
    write_images(model_dir, step, {name: png})
    return path
