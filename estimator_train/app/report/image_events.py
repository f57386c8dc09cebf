"""Writes images to event files for TensorBoard."""

import io

import tensorflow as tf
from PIL import Image

from estimator_train._engine.events import event_writer

v1 = tf.compat.v1


def write_images(directory, step, images):
    """Writes `images`, a dict of tags to PNG files as bytes, to the event file in `directory`, at a global step."""
    summary = v1.Summary()
    for tag, png in images.items():
        pixels = Image.open(io.BytesIO(png))
        size = {"width": pixels.width, "height": pixels.height, "colorspace": len(pixels.getbands())}
        summary.value.add(tag=tag, image=v1.Summary.Image(**size, encoded_image_string=png))
    with tf.Graph().as_default():  # v1 event writers, which the Estimator uses, cannot be created in eager mode
        writer = event_writer(directory)
    writer.add_summary(summary, step)
    writer.flush()
