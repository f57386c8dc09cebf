"""An input_fn from image files in one folder a class."""

import os

import numpy as np
import tensorflow as tf

from estimator_train.input_fns.service import check_service, distribute, index_batches


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
    service=None,
):
    """Returns an input_fn over JPEG and PNG files; the label of a file is the name of its folder.

    The arguments up to `prefetch_buffer_size` and their defaults are those of the input_fn in Kashif
    Rasul's blog post "Multi-GPU training with Estimators, tf.keras and tf.data", and so are the values of
    the images. Elements are batches (images, labels): images float32 RGB of shape (batch, height, width, 3)
    in [0, 1], grayscale files widened to three channels, resized bilinearly; labels float32 of shape
    (batch, len(labels)).

    Args:
      file_pattern: a glob pattern, a list of patterns or a list of paths, on any file system of
        `tf.io.gfile`. Files are listed once, here, and sorted; one that two patterns match is read twice.
      labels: the class names, in the order of their indices.
      image_size: (height, width) in pixels.
      shuffle: whether to shuffle: all paths once, and again each epoch within `buffer_size`.
      batch_size: images a batch on each replica; only the very last batch may be short.
      num_epochs: passes over the files; None is forever.
      buffer_size: paths the shuffle of an epoch draws from.
      prefetch_buffer_size: batches prepared ahead; None lets tf.data choose.
      one_hot: False gives labels as int64 class indices of shape (batch,).
      seed: of the shuffle; None takes TensorFlow's global seed.
      on_error: "raise", or "skip" to leave out files that cannot be decoded or whose folder is not in
        `labels`. Those are in the list `input_fn.skipped` and are logged in one line when the data ends;
        data without end logs a line whenever it meets new ones.
      service: "grpc://host:port", the dispatcher of a tf.data service whose workers read and decode the files; they
        find them under the same paths. Every image still comes once an epoch, in batches that come as they are ready,
        and `shuffle` draws from all files, whatever `buffer_size` is. The workers send what this function gives:
        0.6 MB for an image of the default size. What a worker had in hand when it died is missing in that epoch.

    The input_fn takes an optional `tf.distribute.InputContext`: each input pipeline gets its shard of the
    files.

    Raises:
      FileNotFoundError: a pattern matches nothing, or no file has a folder in `labels`.
      ValueError: a file's folder is not in `labels`, `on_error` is neither "raise" nor "skip", or `service` is no such
        address.
      ConnectionError: from the input_fn, where nothing answers at `service`.
      tf.errors.InvalidArgumentError: from the dataset; names a file that cannot be decoded, or tells that
        none can.
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip", got {on_error!r}')
    if service is not None:
        check_service(service)
    paths, indices, skipped = _list_files(file_pattern, list(labels), on_error == "skip")

    def load(paths, indices):
        images, places = decode_files(paths, image_size)
        indices, bad = tf.gather(indices, places), _others(paths, places)
        batch = images, tf.one_hot(indices, len(labels)) if one_hot else indices
        if on_error == "skip":
            return *batch, bad
        message = 'cannot be decoded: no readable JPEG or PNG; delete it or pass on_error="skip"'
        with tf.control_dependencies([tf.debugging.Assert(tf.size(bad) < 1, [bad[:1], message])]):
            return tf.nest.map_structure(tf.identity, batch)

    def input_fn(input_context=None):
        shard = slice(None)
        if input_context is not None:
            shard = slice(input_context.input_pipeline_id, None, input_context.num_input_pipelines)
        files = tf.constant(paths[shard], tf.string), tf.constant(indices[shard])
        if service is None:
            batches = tf.data.Dataset.from_tensor_slices(files)
            if shuffle:
                # The first shuffle spreads the classes over the whole list, the second draws anew each epoch.
                batches = batches.shuffle(len(paths), seed=seed, reshuffle_each_iteration=False)
                batches = batches.shuffle(buffer_size, seed=seed)
            batches = batches.repeat(num_epochs).batch(batch_size)
        else:
            rows = index_batches(
                len(paths[shard]), batch_size=batch_size, num_epochs=num_epochs, shuffle=shuffle, seed=seed
            )
            batches = rows.map(lambda rows: (tf.gather(files[0], rows), tf.gather(files[1], rows)))
        batches = batches.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        if service is not None:
            batches = distribute(batches, service)
        if on_error == "skip":
            batches = _leave_out(batches, skipped, len(set(paths[shard])), endless=num_epochs is None)
            batches = batches.rebatch(batch_size)
        return batches.prefetch(tf.data.AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)

    input_fn.skipped = skipped
    return input_fn


def decode_image(encoded, image_size):
    """Returns the image of an encoded JPEG or PNG, a string scalar: float32 RGB of (height, width, 3) in [0, 1]."""
    image = tf.io.decode_jpeg(encoded, channels=3)  # decodes PNG as well
    return tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), image_size)


def decode_files(paths, image_size):
    """Decodes in parallel: returns the images that can be decoded and their places in `paths`, in order.

    Graphs have no try but Dataset.ignore_errors. One for a batch costs next to nothing, one for each image
    does not.
    """

    def decode(place, path):
        return decode_image(tf.io.read_file(path), image_size), place

    images = tf.data.Dataset.from_tensor_slices(paths).enumerate()
    images = images.map(decode, num_parallel_calls=tf.data.AUTOTUNE).ignore_errors()
    none = tf.data.Dataset.from_tensors((tf.zeros((0, *image_size, 3)), tf.zeros((0,), tf.int64)))
    return images.batch(tf.size(paths, tf.int64)).concatenate(none).take(1).get_single_element()


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
            mend = 'add it or pass on_error="skip"'
            raise ValueError(f"{path} is in folder {folder!r}, which is none of the labels {labels}; {mend}")
    if not paths:
        raise FileNotFoundError(f"no file of {file_pattern!r} is in a folder named like a label: {labels}")
    return paths, np.array(indices, np.int64), skipped


def _glob(pattern):
    # A path may hold brackets of its own.
    found = [pattern] if tf.io.gfile.exists(pattern) else tf.io.gfile.glob(pattern)
    if not found:
        raise FileNotFoundError(f"no file matches {pattern!r}")
    return found


def _others(paths, places):
    """Returns the paths at none of the places."""
    found = tf.scatter_nd(places[:, tf.newaxis], tf.ones_like(places), tf.shape(paths, tf.int64))
    # Not `found == 0`: in a v1 graph that compares objects.
    return tf.boolean_mask(paths, found < 1)


def _leave_out(batches, skipped, num_files, endless):
    """Adds the bad paths of batches (images, labels, bad) to `skipped` and logs them; drops empty batches."""
    bad_paths = set()

    def report():
        if skipped:
            among = ", ".join(skipped[-5:])
            tf.get_logger().warning("%d image files are skipped, among them %s", len(skipped), among)

    def note(bad):
        bad_paths.update(path.decode() for path in bad)
        if len(bad_paths) == num_files:
            # Else data without end would be searched without end.
            raise ValueError(f"none of the {num_files} image files can be decoded, such as {min(bad_paths)}")
        new = sorted(bad_paths.difference(skipped))
        skipped.extend(new)
        at_end = not bad.size
        if at_end or (endless and new):
            report()
        return True

    def keep(images, labels, bad):
        empty = tf.shape(images)[0] < 1
        worth_a_note = empty | (tf.size(bad) > 0)
        noted = tf.cond(worth_a_note, lambda: tf.numpy_function(note, [bad], tf.bool), lambda: True)
        return tf.ensure_shape(noted, ()) & ~empty

    if endless:
        report()
    else:
        # After the last batch comes one with neither images nor bad paths.
        end = [tf.zeros((0, *spec.shape[1:]), spec.dtype) for spec in batches.element_spec]
        batches = batches.concatenate(tf.data.Dataset.from_tensors(tuple(end)))
    return batches.filter(keep).map(lambda images, labels, bad: (images, labels))
