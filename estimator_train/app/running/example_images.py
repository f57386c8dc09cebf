"""Reads the images of a run's evaluation examples, for pages that show them."""

import contextlib
import os

import numpy as np
import tensorflow as tf
from PIL import Image

from estimator_train.app.errors import SettingError
from estimator_train.app.runs import predictions_file
from estimator_train.input_fns.images.decoding import decode_image, decode_pixels


def images_of(settings):
    """Returns a function of an example's name that reads its image, or returns None if it cannot be read."""
    paths = {}
    with contextlib.suppress(SettingError):  # the files may have gone since the run
        data = settings.open_data(draw=False)
        paths = dict(zip(predictions_file.image_names(data), predictions_file.image_paths(data), strict=True))

    def read(name):
        try:
            return image_at(paths[name], settings) if name in paths else None
        except tf.errors.OpError:  # its file has gone or changed
            return None

    return read


def image_at(path, settings):
    """Returns the image of a file, the right way up; with --resize crop or pad, the part that the model sees."""
    # Decoded by TensorFlow, as in training, because Pillow rejects different files.
    encoded = tf.io.read_file(os.fsencode(path))
    if settings.resize in ("crop", "pad"):
        image = decode_image(encoded, settings.image_size, **settings.decoding)
        pixels = (255 * image).numpy().round().astype("uint8")
    else:
        pixels = decode_pixels(encoded, orient=not settings.ignore_orientation).numpy()
    return Image.fromarray(np.repeat(pixels, 3 // pixels.shape[-1], axis=-1))
