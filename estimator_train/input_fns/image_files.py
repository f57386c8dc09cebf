"""An input_fn from image files in one folder a class."""

import os

import numpy as np
import tensorflow as tf


def image_files(
    file_pattern,
    labels,
    image_size=(224, 224),
    shuffle=False,
    batch_size=64,
    num_epochs=None,
    buffer_size=4096,
    prefetch_buffer_size=None,
    *,
    one_hot=True,
    seed=None,
    on_error="raise",
):
    """Returns an input_fn over JPEG and PNG files; the label of a file is the name of its folder.

    The arguments up to `prefetch_buffer_size` and their defaults are those of the input_fn in Kashif Rasul's post.
    Elements are batches (images, labels): images float32 RGB of shape (batch, height, width, 3) in [0, 1], resized
    bilinearly, grayscale ones widened to three channels; labels float32 of shape (batch, len(labels)).

    Args:
      file_pattern: a glob pattern, a list of patterns or a list of paths, local or on any file system of `tf.io.gfile`.
        Files are listed once, here; a file that two patterns match is read twice.
      labels: the class names, in the order of their indices.
      image_size: (height, width) in pixels.
      shuffle: whether to shuffle: all paths once, and again each epoch within `buffer_size`.
      batch_size: images a batch on each replica; only the very last batch may be short.
      num_epochs: passes over the files; None is forever.
      buffer_size: paths the shuffle of an epoch draws from.
      prefetch_buffer_size: batches prepared ahead; None is tuned by tf.data.
      one_hot: False gives labels as int64 class indices of shape (batch,).
      seed: of the shuffle; None takes TensorFlow's global seed.
      on_error: "raise", or "skip" to leave out files that cannot be decoded or whose folder is not in `labels`. Those
        are in the list `input_fn.skipped`, and are logged in one line when the data ends; data without end logs a line
        each time it meets a new one. "skip" decodes somewhat slower.

    The input_fn takes an optional `tf.distribute.InputContext`: each input pipeline gets its own shard of the files.

    Raises:
      FileNotFoundError: a pattern matches nothing.
      ValueError: a file's folder is not in `labels`, or `on_error` is neither "raise" nor "skip".
      tf.errors.InvalidArgumentError: when iterated, for a file that cannot be decoded; names the file. One that cannot
        even be read (gone, no permission) gives TensorFlow's own error, whatever `on_error`.

    Source: Kashif Rasul, "Multi-GPU training with Estimators, tf.keras and tf.data" (TensorFlow blog).
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip", got {on_error!r}')
    skip = on_error == "skip"
    paths, indices, skipped = _list_files(file_pattern, list(labels), skip)

    def decode(paths, contents, indices):
        images, places = _decode_batch(contents, image_size)
        labels_ = tf.gather(indices, places)
        return images, tf.one_hot(labels_, len(labels)) if one_hot else labels_, _others(paths, places)

    def input_fn(input_context=None):
        shard = slice(None)
        if input_context is not None:
            shard = slice(input_context.input_pipeline_id, None, input_context.num_input_pipelines)
        files = tf.data.Dataset.from_tensor_slices((tf.constant(paths[shard], tf.string), indices[shard]))
        if shuffle:
            # The first shuffle spreads the classes over the whole list, the second draws anew each epoch.
            files = files.shuffle(len(paths), seed=seed, reshuffle_each_iteration=False)
            files = files.shuffle(buffer_size, seed=seed)
        files = files.repeat(num_epochs).map(_read, num_parallel_calls=tf.data.AUTOTUNE)
        batches = files.batch(batch_size).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
        if on_error == "raise":
            batches = batches.map(_refuse)
        else:
            batches = _leave_out(batches, skipped, len(paths[shard]), endless=num_epochs is None)
            batches = batches.unbatch().batch(batch_size, num_parallel_calls=tf.data.AUTOTUNE)
        return batches.prefetch(tf.data.AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)

    input_fn.skipped = skipped
    return input_fn


def _list_files(file_pattern, labels, skip):
    """Returns (paths, int64 class indices, paths skipped for their folder), sorted by path."""
    patterns = [file_pattern] if isinstance(file_pattern, str | os.PathLike) else file_pattern
    index_of = {label: index for index, label in enumerate(labels)}
    paths, indices, skipped = [], [], []
    for path in sorted(path for pattern in patterns for path in _glob(os.fspath(pattern))):
        folder = os.path.basename(os.path.dirname(path))
        if folder in index_of:
            paths.append(path)
            indices.append(index_of[folder])
        elif skip:
            skipped.append(path)
        else:
            raise ValueError(
                f'{path} is in folder {folder!r}, which is none of the labels {labels}; add it or pass on_error="skip"'
            )
    if not paths:
        raise FileNotFoundError(f"no file of {file_pattern!r} is in a folder named as one of the labels {labels}")
    return paths, np.array(indices, np.int64), skipped


def _glob(pattern):
    # A path may hold brackets of its own.
    found = [pattern] if tf.io.gfile.exists(pattern) else tf.io.gfile.glob(pattern)
    if not found:
        raise FileNotFoundError(f"no file matches {pattern!r}")
    return found


def _read(path, index):
    return path, tf.io.read_file(path), index


def _decode_batch(contents, image_size):
    """Decodes in parallel what can be decoded: returns images and their places in `contents`, in order.

    Graphs have no try but Dataset.ignore_errors. One for a batch costs next to nothing, one for each image does not.
    """

    def decode(place, contents):
        image = tf.io.decode_jpeg(contents, channels=3)  # decodes PNG as well
        return tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), image_size), place

    images = tf.data.Dataset.from_tensor_slices(contents).enumerate()
    images = images.map(decode, num_parallel_calls=tf.data.AUTOTUNE).ignore_errors()
    none = tf.data.Dataset.from_tensors((tf.zeros((0, *image_size, 3)), tf.zeros((0,), tf.int64)))
    return images.batch(tf.size(contents, tf.int64)).concatenate(none).take(1).get_single_element()


def _others(paths, places):
    """The paths at none of the places."""
    found = tf.scatter_nd(places[:, None], tf.ones_like(places), tf.shape(paths, tf.int64))
    return tf.boolean_mask(paths, found == 0)


def _refuse(images, labels, bad):
    message = 'cannot be decoded as JPEG or PNG: delete it or pass on_error="skip"'
    with tf.control_dependencies([tf.debugging.Assert(tf.size(bad) == 0, [bad, message])]):
        return tf.identity(images), tf.identity(labels)


def _leave_out(batches, skipped, num_files, endless):
    """Drops the bad paths of (images, labels, bad), adds them to `skipped` and logs them."""
    undecodable = set()

    def report():
        if skipped:
            among = ", ".join(skipped[-5:])
            tf.get_logger().warning("%d image files are skipped, among them %s", len(skipped), among)

    def note(bad):
        bad = {path.decode() for path in bad}
        undecodable.update(bad)
        if len(undecodable) == num_files:
            raise ValueError(f"none of the {num_files} image files can be decoded as JPEG or PNG; x")
        new = bad.difference(skipped)
        skipped.extend(sorted(new))
        return False
