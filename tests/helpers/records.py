"""TFRecord files of images, as the dataset `tfrecord` reads them."""

import numpy as np
import tensorflow as tf


def write_records(path, examples):
    """Writes pairs of an encoded image or an array of pixels, which becomes a PNG, and a label."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for image, label in examples:
            encoded = tf.io.encode_png(image).numpy() if isinstance(image, np.ndarray) else image
            feature = {
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
