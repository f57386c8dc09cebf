"""image_files, labelled_images: input_fns over image files, labelled by their directories or by an array."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.autograph import unconverted
from estimator_train._engine.host import host_memory
from estimator_train._engine.host.files import printable
from estimator_train._engine.input_fns.frozen_features import FrozenFeatures, frozen_features
from estimator_train._engine.input_fns.order import number_batches, share_of_pipeline, without_first
from estimator_train._engine.keras_forms import refuses_keras_arguments
from estimator_train.input_fns.images import decoding
from estimator_train.input_fns.images.cache import ReadImages, key_of_files, open_cache
from estimator_train.input_fns.images.faults import fault_of_file
from estimator_train.input_fns.service import check_service, distribute


@refuses_keras_arguments
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
    resize: str = "squash",
    orient: bool = True,
) -> "ImageFiles | FrozenFeatures":
    """Returns an input_fn over image files; each file's label is the name of its directory.

        >>> for path in ["train/cat/1.png", "train/dog/2.png"]:
        ...     _ = tf.io.write_file(path, tf.io.encode_png(tf.zeros([8, 8, 1], tf.uint8)))
        >>> input_fn = et.input_fns.image_files("train/*/*.png", ["cat", "dog"], image_size=(4, 4), num_epochs=1)
        >>> images, labels = next(iter(input_fn()))
        >>> images.shape, labels.numpy().tolist()
        (TensorShape([2, 4, 4, 3]), [[1.0, 0.0], [0.0, 1.0]])

    Files are JPEG, PNG or, with Pillow installed, still WebP, BMP, GIF (its first frame) or TIFF (of up to 16 bits).
    Elements are batches (images, labels). Images are float32 RGB of shape (batch, height, width, 3) in [0, 1], resized
    bilinearly; grayscale files are converted to RGB. Labels are float32, one-hot, of shape (batch, len(labels)). Each
    input pipeline reads and caches only its shard of the files. See docs/input_fns.md.

    The arguments up to `prefetch_buffer_size`, their defaults, and the values of the images are those of the input_fn
    in Kashif Rasul's blog post "Multi-GPU training with Estimators, tf.keras and tf.data".

    Args:
      file_pattern: a glob pattern, a list of patterns or a list of paths, on any file system that `tf.io.gfile`
        supports. Files are listed and sorted once, in this call. A file that matches two patterns is read twice.
      labels: the class names, in the order of their indices.
      image_size: (height, width) in pixels.
      shuffle, batch_size, num_epochs, seed: as for `arrays`, but for files.
      buffer_size: has no effect, because the shuffle needs no buffer.
      prefetch_buffer_size: number of batches to prefetch; None lets tf.data choose.
      one_hot: if False, labels are int64 class indices of shape (batch,).
      on_error: "raise", or "skip" to leave out files that cannot be decoded, that are not regular files, or whose
        directory is not in `labels`. They are added to the list `input_fn.skipped` and logged.
      cache: "memory" or a directory, where the first call of the input_fn keeps all images, decoded and resized: four
        bytes per pixel of a grayscale image, twelve of a color image. Or "features", which keeps the outputs of the
        model's frozen layers; see `frozen_features`.
      fast: whether the JPEG decoder scales images down by 2, 4 or 8 if they are at least that many times larger than
        `image_size`. The values differ slightly.
      deterministic: if False, batches are returned in the order in which they are ready.
      service: "grpc://host:port", the address of a tf.data service dispatcher, whose workers read the files, under the
        same paths, and decode all but TIFF. Batches are returned in the order in which they are ready. If a worker
        dies, the images that it was processing are missing in that epoch.
      resize: "squash" changes the aspect ratio to that of `image_size`; "crop" keeps it, and cuts off what is over on
        two sides; "pad" keeps it, and adds black borders.
      orient: whether to turn JPEG and TIFF images as their EXIF orientation says.

    Raises:
      FileNotFoundError: a pattern matches nothing, or no file is in a directory named like a label.
      ValueError: an argument is invalid, or two exclude each other; a file's directory is not in `labels`, a path is
        not a regular file, or a pattern matches a name that is not UTF-8.
      ConnectionError: from the input_fn, if nothing answers at `service`.
      MemoryError, OSError: from the input_fn, if the cache does not fit.
      tf.errors.InvalidArgumentError: from the dataset, if a file cannot be decoded (the message names it) or, with
        on_error="skip", if none can.
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip", got {on_error!r}')
    _check_sizes(batch_size, resize)
    _check_service(service, cache)
    if cache == "features":
        _check_fixed_order(deterministic, prefetch_buffer_size)
    paths, indices, skipped = _list_files(file_pattern, list(labels), on_error == "skip")
    examples = ImageFiles(
        paths=paths,
        labels=indices,
        num_classes=len(labels) if one_hot else None,
        image_size=_as_size(image_size),
        batch_size=batch_size,
        prefetch_buffer_size=prefetch_buffer_size,
        on_error=on_error,
        fast=fast,
        deterministic=deterministic,
        service=service,
        resize=resize,
        orient=orient,
        skipped=skipped,
    )
    return _over_epochs(examples, num_epochs, shuffle, seed, cache)


@refuses_keras_arguments
def labelled_images(
    paths: Sequence[str],
    labels: Sequence[int] | np.ndarray,
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
    resize: str = "squash",
    orient: bool = True,
) -> "ImageFiles | FrozenFeatures":
    """Returns an input_fn over image files with an array of labels.

        >>> for path in ["1.png", "2.png"]:
        ...     _ = tf.io.write_file(path, tf.io.encode_png(tf.zeros([8, 8, 1], tf.uint8)))
        >>> input_fn = et.input_fns.labelled_images(["1.png", "2.png"], np.float32([[0.5], [2]]), image_size=(4, 4))
        >>> images, labels = next(iter(input_fn().take(1)))
        >>> images.shape[1:], labels.numpy().tolist()[:2]
        (TensorShape([4, 4, 3]), [[0.5], [2.0]])

    Elements are batches (images, labels) or (images, labels, weights). `image_files` describes the images and the
    arguments that are not listed here.

    Args:
      paths: paths of the files, in order, on any file system that `tf.io.gfile` supports.
      labels: an array of shape (number of files, ...).
      num_classes: converts class indices, from 0, to one-hot float32 labels of this length; None leaves the labels
        unchanged.
      sample_weight: weights of the examples in the loss, of shape (number of files,), or None.

    Raises:
      ValueError: there are no paths, the arrays differ in length, or another argument is invalid.
      MemoryError, OSError, tf.errors.InvalidArgumentError: see `image_files`.
    """
    _check_sizes(batch_size, resize)
    if isinstance(sample_weight, list):
        sample_weight = np.asarray(sample_weight, np.float32)
    lengths = {len(column) for column in (paths, labels, sample_weight) if column is not None}
    if len(lengths) > 1 or not len(paths):
        raise ValueError(f"paths, labels and sample_weight must have the same length above 0, got {sorted(lengths)}")
    labels = np.asarray(labels)
    if num_classes is not None and not ((labels >= 0) & (labels < num_classes)).all():
        raise ValueError(
            f"labels must be class indices from 0 to {num_classes - 1}, got {labels.min()} to {labels.max()}; correct "
            "them or num_classes"
        )
    examples = ImageFiles(
        paths=_as_bytes(paths),
        labels=labels,
        num_classes=num_classes,
        sample_weight=sample_weight,
        image_size=_as_size(image_size),
        batch_size=batch_size,
        fast=fast,
        resize=resize,
        orient=orient,
    )
    return _over_epochs(examples, num_epochs, shuffle, seed, cache)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ImageFiles:
    """The input_fn that `image_files` and `labelled_images` return, with their arguments.

    Implements the protocols `PreprocessesOnDevice`, `StartsAnywhere` and `HasFingerprint` of `protocols`.
    """

    paths: np.ndarray = dataclasses.field(repr=False)  # of bytes, in order
    labels: np.ndarray = dataclasses.field(repr=False)
    num_classes: int | None
    image_size: tuple[int, int]
    batch_size: int
    sample_weight: np.ndarray | None = dataclasses.field(default=None, repr=False)
    shuffle: bool = False
    num_epochs: int | None = 1
    prefetch_buffer_size: int | None = None
    seed: int | None = None
    on_error: str = "raise"
    cache: str | os.PathLike[str] | None = None
    fast: bool = False
    deterministic: bool = True
    service: str | None = None
    resize: str = "squash"
    orient: bool = True
    skipped: list[str] = dataclasses.field(default_factory=list)  # the paths of the files skipped so far
    first: int = 0  # images to skip at the beginning, counted over all epochs and input pipelines
    caches: dict = dataclasses.field(default_factory=dict, repr=False)  # by input pipeline, filled by its first call

    preprocess = staticmethod(decoding.to_rgb_on_device)

    @unconverted
    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        batches = self._batches(input_context)
        rgb = batches.map(lambda images, *labels: (decoding.to_rgb(images), *labels), tf.data.AUTOTUNE)
        return self._prefetched(rgb)

    @unconverted
    def host_batches(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns the same batches as `__call__`, except that all-grayscale batches have one channel."""
        return self._prefetched(self._batches(input_context))

    def starting_at(self, examples: int, seed: int) -> "ImageFiles":
        return dataclasses.replace(self, first=examples, seed=seed if self.seed is None else self.seed)

    def fingerprint(self) -> str:
        how: tuple[bool | str, ...] = (self.fast, self.resize, self.orient)
        if how[1:] == ("squash", True):  # fingerprints of earlier versions are without these
            how = how[:1]
        files = key_of_files(_as_text(self.paths), self.image_size, *how)
        parts = [files, self.labels.tolist(), self.num_classes or False, self.on_error]
        if self.sample_weight is not None:
            parts.append(self.sample_weight.tolist())
        return repr(tuple(parts))

    def _batches(self, input_context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        context = input_context or tf.distribute.InputContext()
        shard = slice(context.input_pipeline_id, None, context.num_input_pipelines)
        paths = self.paths[shard]
        start = first = share_of_pipeline(self.first, context)
        if self._skips:
            start = 0
        order: dict[str, Any] = {"batch_size": self.batch_size, "num_epochs": self.num_epochs, "seed": self.seed}
        batches = self._loaded(number_batches(len(paths), shuffle=self.shuffle, start=start, **order), shard)
        if self._skips:
            batches = _leave_out(batches, self.skipped, len(np.unique(paths)), endless=self.num_epochs is None)
            batches = without_first(batches, first).rebatch(self.batch_size)
        options = tf.data.Options()
        options.deterministic = self.deterministic and self.service is None
        # Decoding many images in parallel on one core each takes less processor time than using all cores for each.
        options.threading.max_intra_op_parallelism = 1
        return batches.with_options(options)

    @property
    def _skips(self) -> bool:
        return self.on_error == "skip"

    def _loaded(self, numbers: tf.data.Dataset, shard: slice) -> tf.data.Dataset:
        """Returns the batches of files with these numbers in a shard, a slice of all files."""
        is_alone = self.cache is None and self.service is None
        if is_alone and self.deterministic and self.num_epochs == 1 and not self._skips:
            return self._decoded_in_turn(numbers, shard)
        batches = numbers.map(self._loader(shard), num_parallel_calls=tf.data.AUTOTUNE)
        if self.service is None:
            return batches
        return distribute(batches, self.service)

    def _decoded_in_turn(self, numbers: tf.data.Dataset, shard: slice) -> tf.data.Dataset:
        """Returns the batches of one epoch of a shard's files; it is an error if a file cannot be decoded."""
        # `_loader` decodes each batch in a dataset of its own, which takes a fifth longer. Here, a missing file can
        # only be named because the order is known. If no more files can be read, a batch fills up only at the end of
        # the data: after several epochs, that would be late, and without an end, never.
        take_paths, targets = self._take_paths(shard), self._targets(shard)
        files = numbers.map(lambda numbers: (numbers, take_paths(numbers)))
        images = decoding.batched(decoding.decoded(files.unbatch(), self.image_size, **self._how), self.batch_size)

        def join(files: tuple[tf.Tensor, tf.Tensor], batch: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
            (numbers, paths), (images, found) = files, decoding.with_own_channels(*batch)
            number = tf.minimum(tf.size(numbers), tf.size(found))
            are_there = tf.cast(tf.equal(numbers[:number], found[:number]), tf.int32)
            bad = paths[tf.reduce_sum(tf.math.cumprod(are_there)) :]  # the first is; others may come later
            with tf.control_dependencies([_assert_none(bad, self._fault_in_turn)]):
                return tf.identity(images), *targets(numbers)

        batches = tf.data.Dataset.zip((files, images)).map(join, num_parallel_calls=tf.data.AUTOTUNE)
        return batches.apply(tf.data.experimental.assert_cardinality(numbers.cardinality()))

    def _fault_in_turn(self, path: bytes) -> str:
        _, places = decoding.decode_own_channels([path], self.image_size, **self._how)
        if len(places):
            return "cannot be decoded: a file before it is damaged, missing or closed; look at that"
        return _fault_as_text(path)

    def _targets(self, shard: slice) -> Callable[[tf.Tensor], list[tf.Tensor]]:
        """Returns a function from indices into a shard to labels, or labels and weights."""
        columns = [tf.constant(column[shard]) for column in (self.labels, self.sample_weight) if column is not None]

        def targets(numbers: tf.Tensor) -> list[tf.Tensor]:
            label, *weight = (tf.gather(column, numbers) for column in columns)
            if self.num_classes:
                label = tf.one_hot(label, self.num_classes)
            return [label, *weight]

        return targets

    def _loader(self, shard: slice) -> Callable[[tf.Tensor], tuple[tf.Tensor, ...]]:
        """Returns a function from indices into a shard to a batch of these files and, if it skips some, their paths."""
        take_paths, targets = self._take_paths(shard), self._targets(shard)
        is_served, read_cache = self.service is not None, None
        if self.cache is not None:
            read_cache = self._cached(self.cache, shard)

        def load(numbers: tf.Tensor) -> tuple[tf.Tensor, ...]:
            if read_cache is not None and not self._skips:  # filling the cache has decoded every file
                images, places = read_cache(numbers)
                return images, *targets(tf.gather(numbers, places))
            paths = take_paths(numbers)
            if read_cache is not None:
                images, places = read_cache(numbers)
            else:
                images, places = decoding.decode_own_channels(paths, self.image_size, serving=is_served, **self._how)
            labels, bad = targets(tf.gather(numbers, places)), _others(paths, places)
            if self._skips:
                return decoding.to_rgb(images), labels[0], bad  # rebatch needs equal numbers of channels in all batches
            with tf.control_dependencies([_assert_none(bad, None if is_served else _fault_as_text)]):
                return tf.nest.map_structure(tf.identity, (images, *labels))

        return load

    def _take_paths(self, shard: slice) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns a function from indices into a shard to the files' paths."""
        paths = self.paths[shard]
        if self.service is not None:  # its workers cannot read this process' memory
            return functools.partial(tf.gather, tf.constant(paths))
        # A constant in the graph would take another two times the memory of the array.
        return lambda numbers: tf.ensure_shape(
            tf.numpy_function(paths.__getitem__, [numbers], tf.string, stateful=False), numbers.shape
        )

    def _cached(self, cache: str | os.PathLike[str], shard: slice) -> ReadImages:
        """Returns the cache of a shard's files, which is filled once per input_fn."""
        key, paths = (shard.start, shard.step), _as_text(self.paths[shard])
        if key not in self.caches:
            self.caches[key] = open_cache(cache, paths, self.image_size, skip=self._skips, **self._how)
        return self.caches[key]

    @property
    def _how(self) -> dict[str, Any]:
        """The arguments of `decoded` besides the size."""
        return {"fast": self.fast, "resize": self.resize, "orient": self.orient}

    def _prefetched(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        number = self.prefetch_buffer_size
        return batches.prefetch(tf.data.AUTOTUNE if number is None else number)


def _over_epochs(
    examples: ImageFiles, num_epochs: int | None, shuffle: bool, seed: int | None, cache: str | os.PathLike[str] | None
) -> ImageFiles | FrozenFeatures:
    """Returns the input_fn over several epochs of `examples`, which are one epoch in order, without a cache."""
    host_memory.keep_freed_memory()
    if cache == "features":
        return frozen_features(examples, examples.batch_size, num_epochs, shuffle=shuffle, seed=seed)
    return dataclasses.replace(examples, num_epochs=num_epochs, shuffle=shuffle, seed=seed, cache=cache)


def _check_sizes(batch_size: int, resize: str) -> None:
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size!r}")
    if resize not in decoding.RESIZES:
        raise ValueError(f"resize must be one of {', '.join(decoding.RESIZES)}, got {resize!r}")


def _check_service(service: str | None, cache: str | os.PathLike[str] | None) -> None:
    if service is None:
        return
    check_service(service)
    if cache is not None:
        raise ValueError(
            f"cache={cache!r} decodes images in this process, but service={service!r} does so elsewhere; pass one"
        )


def _check_fixed_order(deterministic: bool, prefetch_buffer_size: int | None) -> None:
    if not deterministic:
        raise ValueError('cache="features" needs images in a fixed order; leave out deterministic=False')
    if prefetch_buffer_size is not None:
        raise ValueError('cache="features" prepares its batches itself; leave out prefetch_buffer_size')


def _as_size(image_size: Sequence[int]) -> tuple[int, int]:
    height, width = image_size
    return int(height), int(width)


def _list_files(
    file_pattern: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], labels: Sequence[str], skip: bool
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Returns (paths as bytes, class indices, skipped paths), sorted by path."""
    patterns = file_pattern
    if isinstance(patterns, str | os.PathLike):
        patterns = [patterns]
    label_indices = {os.fsencode(label): index for index, label in enumerate(labels)}
    paths = _as_bytes(path for pattern in patterns for path in _glob(os.fspath(pattern)))
    paths.sort()
    indices = np.full(len(paths), -1, np.int64)
    skipped = []
    for place, path in enumerate(paths):
        directory = os.path.basename(os.path.dirname(path))
        is_special = not os.path.isfile(path) and os.path.lexists(path)  # both are False for gs:// and the like
        if directory in label_indices and not is_special:
            indices[place] = label_indices[directory]
        elif skip:
            skipped.append(os.fsdecode(path))
        elif is_special:  # opening a pipe without a writer would block forever
            fault = 'is a directory, pipe, device or broken link, not an image file; remove it or pass on_error="skip"'
            raise ValueError(f"{os.fsdecode(path)} {fault}")
        else:
            fix = f'which is not one of the labels {labels}; add it or pass on_error="skip"'
            raise ValueError(f"{os.fsdecode(path)} is in directory {os.fsdecode(directory)!r}, {fix}")
    if len(skipped) == len(paths):
        raise FileNotFoundError(f"no file of {file_pattern!r} is in a directory named like a label: {labels}")
    kept = indices >= 0
    return paths[kept], indices[kept], skipped


def _as_bytes(paths: Iterable[str]) -> np.ndarray:
    """Returns an array of the paths as bytes, which take half the memory of Python strings."""
    paths = iter(paths)
    chunks = [np.empty(0, "S1")]
    while chunk := [os.fsencode(path) for path in itertools.islice(paths, 2**16)]:
        chunks.append(np.array(chunk))
    return np.concatenate(chunks)


def _as_text(paths: Iterable[bytes]) -> list[str]:
    return [os.fsdecode(path) for path in paths]


def _glob(pattern: str) -> list[str]:
    # Paths, and directories in a pattern, may contain literal brackets.
    if os.path.lexists(pattern) or tf.io.gfile.exists(os.fsencode(pattern)):
        return [pattern]
    try:
        found = tf.io.gfile.glob(pattern) or tf.io.gfile.glob(pattern.replace("[", "[[]"))
    except UnicodeDecodeError as error:
        fix = "rename it, or pass a list of paths such as Python's glob.glob returns"
        raise ValueError(f"{pattern!r} matches {error.object!r}, a name that is not UTF-8; {fix}") from error
    if not found:
        raise FileNotFoundError(f"no file matches {pattern!r}")
    return found


def _fault_as_text(path: bytes) -> str:
    return str(fault_of_file(path))


def _assert_none(bad: tf.Tensor, find_fault: Callable[[bytes], str] | None) -> tf.Operation:
    """Returns an op that fails if there are bad paths; the error has the first one and its fault, found only then."""

    def fault() -> tf.Tensor:
        if find_fault is None:  # the workers of a service cannot call Python
            return tf.constant("cannot be decoded: no image that a tf.data service reads, such as a TIFF; look at it")
        text = tf.py_function(lambda path: find_fault(path.numpy()), [bad[0]], tf.string)
        return tf.ensure_shape(text, ())

    message = tf.strings.join([tf.cond(tf.size(bad) > 0, fault, lambda: ""), ' or pass on_error="skip"'])
    # Error messages must be UTF-8.
    return tf.debugging.Assert(tf.size(bad) < 1, [tf.strings.unicode_transcode(bad[:1], "UTF-8", "UTF-8"), message])


def _others(paths: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Returns the paths whose indices are not in `places`."""
    return tf.gather(paths, tf.raw_ops.ListDiff(x=tf.range(tf.size(paths, tf.int64)), y=places).out)


def _leave_out(batches: tf.data.Dataset, skipped: list[str], num_files: int, endless: bool) -> tf.data.Dataset:
    """Adds the bad paths of batches (images, labels, bad) to `skipped`, logs them, and drops empty batches."""
    bad_paths = set()

    def note(bad: np.ndarray) -> bool:
        bad_paths.update(os.fsdecode(path) for path in bad)
        if len(bad_paths) == num_files:
            # Otherwise an endless dataset would loop forever.
            raise ValueError(f"none of the {num_files} image files can be decoded, for example {min(bad_paths)}")
        new = sorted(bad_paths.difference(skipped))
        skipped.extend(new)
        if not bad.size or (endless and new):  # without any, the data ends
            _report(skipped)
        return True

    def keep(images: tf.Tensor, labels: tf.Tensor, bad: tf.Tensor) -> tf.Tensor:
        empty = tf.shape(images)[0] < 1
        worth_a_note = empty | (tf.size(bad) > 0)
        noted = tf.cond(worth_a_note, lambda: tf.numpy_function(note, [bad], tf.bool), lambda: True)
        return tf.ensure_shape(noted, ()) & ~empty

    if endless:
        _report(skipped)
    else:
        # A batch with neither images nor bad paths marks the end.
        end = [tf.zeros((0, *spec.shape[1:]), spec.dtype) for spec in batches.element_spec]
        batches = batches.concatenate(tf.data.Dataset.from_tensors(tuple(end)))
    return batches.filter(keep).map(lambda images, labels, bad: (images, labels))


def _report(skipped: list[str]) -> None:
    if skipped:
        among = ", ".join(map(printable, skipped[-5:]))
        tf.get_logger().warning("%d image files were skipped, among them %s", len(skipped), among)
