"""An input_fn from image files in one directory a class."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from estimator_train.host import host_memory
from estimator_train.host.files import printable
from estimator_train.input_fns.cache import key_of_files, open_cache
from estimator_train.input_fns.decoding import decode_own_channels, fault_of_file, to_rgb, to_rgb_on_device
from estimator_train.input_fns.frozen_features import FrozenFeatures, frozen_features
from estimator_train.input_fns.order import number_batches, share_of_pipeline, without_first
from estimator_train.input_fns.service import check_service, distribute


def image_files(
    file_pattern: str | Iterable[str],
    labels: Sequence[str],
    image_size: tuple[int, int] = (224, 224),
    shuffle: bool = False,
    batch_size: int = 64,
    num_epochs: int | None = None,
    buffer_size: int = 4096,
    prefetch_buffer_size: int | None = None,
    *,
    one_hot: bool = True,
    seed: int | None = None,
    on_error: str = "raise",
    cache: str | os.PathLike[str] | None = None,
    fast: bool = False,
    deterministic: bool = True,
    service: str | None = None,
) -> ImageFiles | FrozenFeatures:
    """Returns an input_fn over JPEG and PNG files; the label of a file is the name of its directory.

    The arguments up to `prefetch_buffer_size` and their defaults are those of the input_fn in Kashif
    Rasul's blog post "Multi-GPU training with Estimators, tf.keras and tf.data", and so are the values of
    the images. Elements are batches (images, labels): images float32 RGB of shape (batch, height, width, 3)
    in [0, 1], grayscale files made RGB, resized bilinearly; labels float32 of shape
    (batch, len(labels)).

    Args:
      file_pattern: a glob pattern, a list of patterns or a list of paths, on any file system of
        `tf.io.gfile`. Files are listed once, here, and sorted; one that two patterns match is read twice.
      labels: the class names, in the order of their indices.
      image_size: (height, width) in pixels.
      shuffle: whether to shuffle all files, in a new order each epoch.
      batch_size: images a batch on each replica; only the very last batch may be short.
      num_epochs: passes over the files; None is forever.
      buffer_size: has no effect: the shuffle draws from all files, and takes no memory for it. It is here for calls
        that pass the blog post's arguments by position.
      prefetch_buffer_size: batches prepared ahead; None lets tf.data choose.
      one_hot: False gives labels as int64 class indices of shape (batch,).
      seed: of the shuffle; None draws one by TensorFlow's global seed, if that is set.
      on_error: "raise", or "skip" to leave out files that cannot be decoded, that are no regular files (folders, pipes)
        or whose directory is not in `labels`. Skipped files are in the list `input_fn.skipped`, and logged in one line
        when the data ends; endless data logs a line whenever it meets new ones. Images of more than 89,478,485 pixels
        (Pillow's `Image.MAX_IMAGE_PIXELS`) are not decoded.
      cache: "memory" or a directory: the first call of the input_fn decodes and resizes all files, behind a progress
        bar in a terminal, and epochs read the results: the same batches as without a cache, for the same seed. They
        take four bytes a pixel, three times that in colour. A directory serves later processes too, as long as the
        files' paths, sizes and times, `image_size` and `fast` are the same; what no longer is stays there until it is
        deleted. "features": what a model's frozen layers make of the images is kept in memory: see `frozen_features`;
        for `train` of a Keras model's Estimator.
      fast: whether the JPEG decoder scales down by 2, 4 or 8 what is at least that many times larger than
        `image_size`. The values differ: see docs/input_fns.md.
      deterministic: False lets batches come as they are ready.
      service: "grpc://host:port", the dispatcher of a tf.data service whose workers read and decode the files; they
        find them under the same paths. Every image still comes once an epoch, in batches that come as they are ready.
        The workers send 0.2 MB for a grayscale image of the default size, 0.6 MB for one in colour. What a worker had
        in hand when it died is missing in that epoch.

    The input_fn takes an optional `tf.distribute.InputContext`: each input pipeline gets its shard of the
    files, and caches that alone.

    `input_fn.host_batches()` gives, with on_error="raise", batches of one channel where all images of a batch are
    grayscale; `input_fn.preprocess` makes three of it. The Estimator of a Keras model does so on the device that takes
    the batch: see `protocols.PreprocessesOnDevice`.

    Training that is resumed with `RunConfig(resume_input=True)` begins at any image without reading those before it;
    with on_error="skip" it has to read them, to know which were left out.

    Raises:
      FileNotFoundError: a pattern matches nothing, or no file has a directory in `labels`.
      ValueError: a file's directory is not in `labels`, it is no regular file, or a pattern matches a name that is not
        UTF-8; `on_error` is neither "raise" nor "skip", `batch_size` is not positive, `service` is no such address,
        there are both `cache` and `service`, or `cache` is "features" and `deterministic` False or
        `prefetch_buffer_size` given.
      ConnectionError: from the input_fn, where nothing answers at `service`.
      MemoryError, OSError: from the input_fn, where the cache has no room.
      tf.errors.InvalidArgumentError: from the dataset; names a file that cannot be decoded, or tells that
        none can.
    """
    host_memory.keep_freed_memory()
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip", got {on_error!r}')
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size!r}")
    if service is not None:
        check_service(service)
    if service is not None and cache is not None:
        raise ValueError(f"cache={cache!r} needs the images here, and service={service!r} has them decoded elsewhere")
    if cache == "features":
        if not deterministic:
            raise ValueError('cache="features" needs images in a fixed order; leave out deterministic=False')
        if prefetch_buffer_size is not None:
            raise ValueError('cache="features" prepares its batches itself; leave out prefetch_buffer_size')
        examples = image_files(
            file_pattern,
            labels,
            image_size,
            batch_size=batch_size,
            num_epochs=1,
            one_hot=one_hot,
            on_error=on_error,
            fast=fast,
        )
        return frozen_features(examples, batch_size, num_epochs, shuffle=shuffle, seed=seed)
    image_size = tuple(int(pixels) for pixels in image_size)  # type: ignore[assignment]  # two of them
    paths, indices, skipped = _list_files(file_pattern, list(labels), on_error == "skip")

    return ImageFiles(
        paths=paths,
        labels=indices,
        num_classes=len(labels) if one_hot else None,
        image_size=image_size,
        shuffle=shuffle,
        batch_size=batch_size,
        num_epochs=num_epochs,
        prefetch_buffer_size=prefetch_buffer_size,
        seed=seed,
        on_error=on_error,
        cache=cache,
        fast=fast,
        deterministic=deterministic,
        service=service,
        skipped=skipped,
    )


def labelled_images(
    paths: Sequence[str],
    labels: np.ndarray,
    image_size: tuple[int, int] = (224, 224),
    *,
    num_classes: int | None = None,
    sample_weight: np.ndarray | None = None,
    shuffle: bool = False,
    batch_size: int = 64,
    num_epochs: int | None = None,
    seed: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    fast: bool = False,
) -> ImageFiles | FrozenFeatures:
    """Returns an input_fn over JPEG and PNG files whose labels are given.

    Elements are batches (images, labels) or (images, labels, weights); images as `image_files` has them, which has the
    other arguments, too.

    Args:
      paths: of the files, on any file system of `tf.io.gfile`, in order.
      labels: an array of shape (number of files, ...).
      num_classes: makes one-hot float32 labels of class indices; None leaves the labels as they are.
      sample_weight: weights of the examples in the loss, of shape (number of files,); None: there are none.

    Raises:
      ValueError: there are no paths, the arrays are of other lengths, or `batch_size` is not positive.
      MemoryError, OSError, tf.errors.InvalidArgumentError: see `image_files`.

    Example:
      input_fn = labelled_images(["1.png", "2.png"], np.float32([[0.2], [0.7]]), batch_size=2)
    """
    host_memory.keep_freed_memory()
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size!r}")
    lengths = {len(paths), len(labels), len(paths if sample_weight is None else sample_weight)}
    if len(lengths) > 1 or not paths:
        raise ValueError(f"paths, labels and sample_weight must have one length above 0, got {sorted(lengths)}")
    examples = ImageFiles(
        paths=_as_bytes(paths),
        labels=np.asarray(labels),
        num_classes=num_classes,
        sample_weight=sample_weight,
        image_size=(int(image_size[0]), int(image_size[1])),
        batch_size=batch_size,
        fast=fast,
    )
    if cache == "features":
        return frozen_features(examples, batch_size, num_epochs, shuffle=shuffle, seed=seed)
    return dataclasses.replace(examples, num_epochs=num_epochs, shuffle=shuffle, seed=seed, cache=cache)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ImageFiles:
    """The input_fn that `image_files` and `labelled_images` return; follows all protocols of `protocols`.

    Attributes:
      paths: of the files, in order: an array of bytes.
      labels: an array of a label for each.
      num_classes: of one-hot labels that are made of class indices; None: the labels stay as they are.
      sample_weight: an array of a weight for each, or None.
      skipped: paths that are left out, as far as they have been met.
      first: how many images are left out at the beginning, over all epochs and input pipelines.
      caches: the decoded images of each input pipeline, filled when it is first called.
      The others are the arguments of `image_files`.
    """

    paths: np.ndarray
    labels: np.ndarray
    num_classes: int | None
    image_size: tuple[int, int]
    batch_size: int
    sample_weight: np.ndarray | None = None
    shuffle: bool = False
    num_epochs: int | None = 1
    prefetch_buffer_size: int | None = None
    seed: int | None = None
    on_error: str = "raise"
    cache: str | os.PathLike | None = None
    fast: bool = False
    deterministic: bool = True
    service: str | None = None
    skipped: list[str] = dataclasses.field(default_factory=list)
    first: int = 0
    caches: dict = dataclasses.field(default_factory=dict, repr=False)

    preprocess = staticmethod(to_rgb_on_device)

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        batches = self._batches(input_context)
        return self._prefetched(batches.map(lambda images, *labels: (to_rgb(images), *labels), tf.data.AUTOTUNE))

    def host_batches(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Batches as `__call__` gives them, but those of grayscale images alone have one channel."""
        return self._prefetched(self._batches(input_context))

    def starting_at(self, examples: int, seed: int) -> ImageFiles:
        return dataclasses.replace(self, first=examples, seed=seed if self.seed is None else self.seed)

    def fingerprint(self) -> str:
        files = key_of_files(_as_text(self.paths), self.image_size, self.fast)
        weights = () if self.sample_weight is None else (self.sample_weight.tolist(),)
        return repr((files, self.labels.tolist(), self.num_classes or False, self.on_error, *weights))

    def _batches(self, input_context):
        context = input_context or tf.distribute.InputContext()
        shard = slice(context.input_pipeline_id, None, context.num_input_pipelines)
        paths = self.paths[shard]
        skips, first = self.on_error == "skip", share_of_pipeline(self.first, context)
        batches = number_batches(
            len(paths),
            batch_size=self.batch_size,
            num_epochs=self.num_epochs,
            shuffle=self.shuffle,
            seed=self.seed,
            start=0 if skips else first,
        )
        batches = batches.map(self._loader(shard), num_parallel_calls=tf.data.AUTOTUNE)
        if self.service is not None:
            batches = distribute(batches, self.service)
        if skips:
            batches = _leave_out(batches, self.skipped, len(np.unique(paths)), endless=self.num_epochs is None)
            batches = without_first(batches, first).rebatch(self.batch_size)
        options = tf.data.Options()
        options.deterministic = self.deterministic
        # Many images at once, each on one core, take less processor time than each on all cores.
        options.threading.max_intra_op_parallelism = 1
        return batches.with_options(options)

    def _loader(self, shard):
        """The function from the numbers of files in a shard, a slice of all, to batches of them."""
        paths_of = self._paths_of(shard)
        labels = tf.constant(self.labels[shard])
        weights = [] if self.sample_weight is None else [tf.constant(self.sample_weight[shard])]
        decode = self._cached(shard) if self.cache is not None else None

        def load(numbers):
            of_batch = paths_of(numbers)
            decoded = decode(numbers) if decode else decode_own_channels(of_batch, self.image_size, fast=self.fast)
            images, places = decoded
            bad = _others(of_batch, places)
            label, *weight = (tf.gather(tf.gather(each, numbers), places) for each in [labels, *weights])
            batch = images, tf.one_hot(label, self.num_classes) if self.num_classes else label, *weight
            if self.on_error == "skip":
                # Batches of one channel and of three cannot be rebatched.
                return to_rgb(images), batch[1], bad
            with tf.control_dependencies([_assert_none(bad)]):
                return tf.nest.map_structure(tf.identity, batch)

        return load

    def _paths_of(self, shard):
        """The function from the numbers of files in a shard to their paths."""
        paths = self.paths[shard]
        if self.service is not None:  # its workers have nothing of this process
            return functools.partial(tf.gather, tf.constant(paths))
        # A constant of the graph would take twice the memory of the array, in addition to it.
        return lambda numbers: tf.ensure_shape(
            tf.numpy_function(paths.__getitem__, [numbers], tf.string, stateful=False), numbers.shape
        )

    def _cached(self, shard):
        """The cache of a shard's files, filled once an input_fn."""
        key, skip = (shard.start, shard.step), self.on_error == "skip"
        if key not in self.caches:
            self.caches[key] = open_cache(
                self.cache, _as_text(self.paths[shard]), self.image_size, fast=self.fast, skip=skip
            )
        return self.caches[key]

    def _prefetched(self, batches):
        number = self.prefetch_buffer_size
        return batches.prefetch(tf.data.AUTOTUNE if number is None else number)


def _list_files(file_pattern, labels, skip):
    """Returns (paths as bytes, class indices, paths skipped for their kind or directory), sorted by path."""
    patterns = [file_pattern] if isinstance(file_pattern, str | os.PathLike) else file_pattern
    index_of = {os.fsencode(label): index for index, label in enumerate(labels)}
    paths = _as_bytes(path for pattern in patterns for path in _glob(os.fspath(pattern)))
    paths.sort()
    indices = np.full(len(paths), -1, np.int64)
    skipped = []
    for place, path in enumerate(paths):
        folder = os.path.basename(os.path.dirname(path))
        is_special = not os.path.isfile(path) and os.path.lexists(path)  # neither holds for a path like gs://
        if folder in index_of and not is_special:
            indices[place] = index_of[folder]
        elif skip:
            skipped.append(os.fsdecode(path))
        elif is_special:
            # Opening a pipe that nothing writes to would wait for ever.
            fix = 'remove it or pass on_error="skip"'
            raise ValueError(f"{os.fsdecode(path)} is a folder, pipe, device or broken link, not an image file; {fix}")
        else:
            fix = f'which is none of the labels {labels}; add it or pass on_error="skip"'
            raise ValueError(f"{os.fsdecode(path)} is in folder {os.fsdecode(folder)!r}, {fix}")
    if len(skipped) == len(paths):
        raise FileNotFoundError(f"no file of {file_pattern!r} is in a folder named like a label: {labels}")
    kept = indices >= 0
    return paths[kept], indices[kept], skipped


def _as_bytes(paths):
    """Returns an array of the paths as bytes, which take half the memory of Python's strings."""
    paths = iter(paths)
    chunks = [np.empty(0, "S1")]
    while chunk := [os.fsencode(path) for path in itertools.islice(paths, 2**16)]:
        chunks.append(np.array(chunk))
    return np.concatenate(chunks)


def _as_text(paths):
    return [os.fsdecode(path) for path in paths]


def _glob(pattern):
    # A path may hold brackets of its own, and so may a folder in a pattern.
    if os.path.lexists(pattern) or tf.io.gfile.exists(os.fsencode(pattern)):
        return [pattern]
    try:
        found = tf.io.gfile.glob(pattern) or tf.io.gfile.glob(pattern.replace("[", "[[]"))
    except UnicodeDecodeError as error:
        fix = "rename it, or give a list of paths, such as Python's glob.glob returns"
        raise ValueError(f"{pattern!r} matches {error.object!r}, a name that is not UTF-8; {fix}") from error
    if not found:
        raise FileNotFoundError(f"no file matches {pattern!r}")
    return found


def _assert_none(bad):
    """Returns an op that fails if there are bad paths; the error names the first and says what is wrong with it."""
    fault = tf.cond(tf.size(bad) > 0, lambda: fault_of_file(bad[0]), lambda: "")
    message = tf.strings.join(["cannot be decoded: ", fault, '; delete it or pass on_error="skip"'])
    # The text of an error must be UTF-8.
    return tf.debugging.Assert(tf.size(bad) < 1, [tf.strings.unicode_transcode(bad[:1], "UTF-8", "UTF-8"), message])


def _others(paths, places):
    """Returns the paths at none of the places."""
    return tf.gather(paths, tf.raw_ops.ListDiff(x=tf.range(tf.size(paths, tf.int64)), y=places).out)


def _leave_out(batches, skipped, num_files, endless):
    """Adds the bad paths of batches (images, labels, bad) to `skipped` and logs them; drops empty batches."""
    bad_paths = set()

    def report():
        if skipped:
            among = ", ".join(map(printable, skipped[-5:]))
            tf.get_logger().warning("%d image files are skipped, among them %s", len(skipped), among)

    def note(bad):
        bad_paths.update(os.fsdecode(path) for path in bad)
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
