"""generator: an input_fn over the examples or batches of a Python generator."""

import copy
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.argument_names import argument_names
from estimator_train._engine.host.generator_stream import Item, Share, Skipped, epochs, in_turn
from estimator_train._engine.host.generator_workers import in_workers
from estimator_train._engine.host.host_memory import aligned_empty, keep_freed_memory
from estimator_train._engine.input_fns.order import share_of_pipeline, without_first
from estimator_train._engine.keras_forms import refuses_keras_arguments, shown
from estimator_train._engine.types import Nest


@refuses_keras_arguments
def generator(
    make_generator: Callable[..., Iterator[Any]],
    *,
    batch_size: int | None = None,
    num_epochs: int | None = 1,
    output_signature: Any = None,
    augment: Callable[[Any, Any], tuple[Any, Any]] | None = None,
    elements_per_epoch: int | None = None,
    workers: int = 0,
) -> "GeneratorExamples":
    """Returns an input_fn over the examples or batches that a Python generator yields.

        >>> def squares():
        ...     for number in range(4):
        ...         yield np.float32(number), np.float32(number**2)
        >>> input_fn = et.input_fns.generator(squares, batch_size=2)
        >>> [labels.numpy().tolist() for numbers, labels in input_fn()]
        [[0.0, 1.0], [4.0, 9.0]]

    Args:
      make_generator: a function that returns a fresh iterator of tuples (features, labels), each an array, a number,
        or a dict or tuple of these. It is called once per epoch. Each tuple is one example, or one batch if
        `batch_size` is None. For an example that cannot be read, the iterator may yield
        `input_fns.Skipped("which, and why")`; it is left out, logged, and added once to the list `input_fn.skipped`.
      batch_size: examples per batch on each replica; only the very last batch may be short. If None, each tuple is a
        batch.
      num_epochs: number of epochs, each with a new iterator; None repeats forever.
      output_signature: nested `tf.TensorSpec` of one tuple. If None, it is inferred from the first tuple of an extra
        iterator, with the leading dimension of batches left open. An unknown rank is inferred in the same way.
      augment: a function (features, labels) -> (features, labels) in numpy and Python, called on every tuple in every
        epoch, before the signature is checked. It may return `Skipped` as well.
      elements_per_epoch: the number of tuples, including skipped ones, in every epoch of an input pipeline; an epoch
        with fewer or more is an error. None allows any number.
      workers: number of worker processes that run the iterators and `augment`; 0 runs them in this process. Each worker
        is an input pipeline with its own `input_context`, and their tuples are taken in turn. Functions and their
        arguments must be picklable by cloudpickle, and each worker imports the modules that they need.

    Every input pipeline calls `make_generator`, and its elements are not sharded. If `make_generator` has a parameter
    `input_context`, it gets the pipeline's `tf.distribute.InputContext`, and may shard them. A parameter `epoch` gets
    the number of the epoch, from 0.

    Training resumed with `RunConfig(resume_input=True)` starts in the epoch where it stopped if both `batch_size` and
    `elements_per_epoch` are given; otherwise it reads all earlier elements again. A parameter `first` gets the number
    of the element, from 0, at which to start the first epoch; otherwise earlier elements are generated and dropped.
    Checkpoints count no `Skipped` elements, so for each of them, such a start is one element too early.

    Raises:
      TypeError: `make_generator` is not a function.
      ValueError: an argument is invalid, or there are several workers but `make_generator` has no parameter
        `input_context`, so each would yield everything. From the input_fn: the iterator made to infer the signature
        yields nothing, or a scalar as a batch.
      tf.errors.OpError: from the dataset: the Python code raised an error, an element does not match the signature, an
        epoch yields nothing or ends early, `make_generator` returned the same iterator twice, or a worker was killed.
    """
    keep_freed_memory()
    if not callable(make_generator):
        raise TypeError(
            f"make_generator must be a function that returns a fresh iterator, given: {shown(make_generator)}; pass a "
            "generator's function itself, or lambda: (sequence[i] for i in range(len(sequence)))"
        )
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, or None if each tuple is a batch; got {batch_size!r}")
    if workers < 0:
        raise ValueError(f"workers must be 0 or above, got {workers}")
    if workers > 1 and "input_context" not in argument_names(make_generator):
        fix = "give it a parameter input_context and yield only the share of that input pipeline"
        raise ValueError(f"each of the {workers} workers would yield all elements of make_generator; {fix}")
    return GeneratorExamples(
        make_generator, batch_size, num_epochs, output_signature, augment, elements_per_epoch, workers
    )


@dataclasses.dataclass(frozen=True, eq=False)
class GeneratorExamples:
    """The input_fn that `generator` returns, with its arguments; implements the protocol `StartsAnywhere`."""

    make_generator: Callable
    batch_size: int | None
    num_epochs: int | None
    output_signature: Any
    augment: Callable | None
    elements_per_epoch: int | None
    workers: int
    skipped: list[str] = dataclasses.field(default_factory=list)  # the texts of `Skipped` elements so far, each once
    first: int = 0  # examples to skip at the beginning, counted over all epochs and input pipelines

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        context = input_context or tf.distribute.InputContext()
        signature = self._signature(context)
        before = share_of_pipeline(self.first, context)
        epoch = first = 0
        if self.batch_size is not None and self.elements_per_epoch is not None:
            (epoch, first), before = divmod(before, self.elements_per_epoch), 0

        def elements() -> Iterator[tuple]:
            items = self._items(context, epoch, first)
            return _checked(items, signature, self.elements_per_epoch, self.skipped, first)

        if self.batch_size is None:
            dataset = without_first(_as_they_are(elements, signature), before)
        else:
            dataset = _in_batches(elements, before, self.batch_size, signature)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)

    def _items(self, context: tf.distribute.InputContext, epoch: int, first: int) -> Iterator[Item | None]:
        """Yields what `epochs` does, from the element `first` of an epoch on, generated here or in the workers."""
        generate = functools.partial(epochs, num_epochs=self.num_epochs, augment=self.augment)
        if not self.workers:
            yield from generate(self._make_fresh, input_context=context, start=(epoch, first))
            return
        functions, pipelines = [], context.num_input_pipelines * self.workers
        for worker in range(self.workers):
            share = Share(pipelines, context.input_pipeline_id * self.workers + worker, context.num_replicas_in_sync)
            start = epoch, len(range(worker, first, self.workers))
            functions.append(functools.partial(generate, self.make_generator, input_context=share, start=start))
        with in_workers(functions) as streams:
            yield from in_turn(streams, first)

    def starting_at(self, examples: int, seed: int) -> "GeneratorExamples":
        return dataclasses.replace(self, first=examples)

    def _signature(self, context: tf.distribute.InputContext) -> Nest:
        signature = self.output_signature
        if signature is not None and all(spec.shape.rank is not None for spec in tf.nest.flatten(signature)):
            return signature
        first = _first(epochs(self._make_fresh, num_epochs=1, augment=self.augment, input_context=context))
        return _with_ranks(signature, _signature_of(first, batched=self.batch_size is None))

    @functools.cached_property
    def _make_fresh(self) -> Callable[..., Iterable[Item]]:
        return _refusing_the_last(self.make_generator)


def _as_they_are(elements: Callable[[], Iterator[tuple]], signature: Nest) -> tf.data.Dataset:
    def copies() -> Iterator[tuple]:
        # TensorFlow uses an array where it lies, and Python and workers may use the memory again.
        return map(copy.deepcopy, elements())

    return tf.data.Dataset.from_generator(copies, output_signature=signature)


def _in_batches(
    elements: Callable[[], Iterator[tuple]], first: int, batch_size: int, signature: Nest
) -> tf.data.Dataset:
    """Returns batches of the elements from `first` on."""

    # Not made by Dataset.batch: passing one element from Python to tf.data costs more than making a small batch.
    def batches() -> Iterator[Nest]:
        return _batches(itertools.islice(elements(), first, None), batch_size, signature)

    specs = tf.nest.map_structure(lambda spec: tf.TensorSpec([None, *spec.shape], spec.dtype), signature)
    return tf.data.Dataset.from_generator(batches, output_signature=specs)


def _refusing_the_last(make_generator: Callable[..., Iterable[Item]]) -> Callable[..., Iterable[Item]]:
    """Wraps `make_generator` to raise an error if it returns the same, already used, iterator as last time."""
    last = None

    @functools.wraps(make_generator)
    def make_fresh(**offered: Any) -> Iterable[Item]:
        nonlocal last
        made = make_generator(**offered)
        if made is last and iter(made) is made:
            raise ValueError(
                "make_generator returned one iterator twice; it must return a fresh iterator at every call"
            )
        last = made
        return made

    return make_fresh


def _first(items: Iterable[Item | None]) -> tuple:
    num_skipped = 0
    for item in items:
        if isinstance(item, tuple):
            return item
        num_skipped += isinstance(item, Skipped)
    raise _empty_epoch(num_skipped)


def _with_ranks(signature: Nest | None, inferred: Nest) -> Nest:
    """Fills unknown ranks of `signature` from `inferred`; Keras needs the rank to resolve a metric like "acc"."""
    if signature is None:
        return inferred

    def with_rank(spec: tf.TensorSpec, like: tf.TensorSpec) -> tf.TensorSpec:
        if spec.shape.rank is not None:
            return spec
        return tf.TensorSpec([None] * like.shape.rank, spec.dtype)

    return tf.nest.map_structure(with_rank, signature, inferred)


def _signature_of(value: Nest, batched: bool) -> Nest:
    if isinstance(value, dict):
        return {key: _signature_of(item, batched) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_signature_of(item, batched) for item in value)
    if not hasattr(value, "dtype"):
        # TensorFlow determines the dtypes of Python numbers: 1.0 is float32.
        value = tf.make_ndarray(tf.make_tensor_proto(value))
    if batched and not value.shape:
        raise ValueError(f"make_generator yielded a scalar {value} in a batch; pass batch_size if it yields examples")
    shape = (None, *value.shape[1:]) if batched else value.shape
    return tf.TensorSpec(shape, tf.as_dtype(value.dtype))


def _checked(
    items: Iterable[Item | None], signature: Nest, elements_per_epoch: int | None, skipped: list[str], first: int
) -> Iterator[tuple]:
    """Yields the tuples of `items`, which come from `epochs`, after checking them against the signature.

    Also checks the number of elements of each epoch, and collects and logs skipped ones. `first` is the number of
    elements missing at the beginning of the first epoch.
    """
    number, num_yielded, num_skipped = 0, first, 0
    for item in items:
        if item is None:
            _check_epoch(num_yielded, num_skipped, elements_per_epoch)
            num_yielded = num_skipped = 0
        elif isinstance(item, Skipped):
            num_skipped += 1
            if item.what not in skipped:
                skipped.append(item.what)
                tf.get_logger().warning("%d skipped, the last of them %s", len(skipped), item.what)
        elif not _fits(item, signature):
            got = _signature_of(item, batched=False)
            raise ValueError(
                f"element {number} (counted from 0) of make_generator is {got}, expected {signature}; "
                "pass output_signature if elements may differ"
            )
        else:
            yield item
            number += 1
            num_yielded += 1


def _batches(examples: Iterator[tuple], batch_size: int, signature: Nest) -> Iterator[Nest]:
    """Yields batches of examples; the last may be short. Copies each example at once, as Python may reuse its array."""
    specs = tf.nest.flatten(signature)
    for first in examples:
        shapes = [np.shape(part) for part in _parts(first, signature)]
        columns = [
            aligned_empty((batch_size, *shape), spec.dtype.as_numpy_dtype)
            for shape, spec in zip(shapes, specs, strict=True)
        ]
        number = 0
        for example in itertools.chain([first], itertools.islice(examples, batch_size - 1)):
            for column, shape, part in zip(columns, shapes, _parts(example, signature), strict=True):
                if np.shape(part) != shape:
                    fix = "give them the same shape, or yield batches and leave out batch_size"
                    raise ValueError(f"examples of one batch have the shapes {shape} and {np.shape(part)}; {fix}")
                column[number] = part
            number += 1
        yield tf.nest.pack_sequence_as(signature, [column[:number] for column in columns])


def _parts(value: Nest, signature: Nest) -> list[Any]:
    """Returns the arrays and numbers in `value`, in the order of tf.nest.flatten(signature)."""
    if isinstance(signature, dict):
        return [part for key in sorted(signature) for part in _parts(value[key], signature[key])]
    if isinstance(signature, tuple):
        return [part for item, spec in zip(value, signature, strict=True) for part in _parts(item, spec)]
    return [value]


def _check_epoch(num_yielded: int, num_skipped: int, expected: int | None) -> None:
    if not num_yielded:
        raise _empty_epoch(num_skipped)
    num_elements = num_yielded + num_skipped
    if expected is not None and num_elements < expected:
        raise ValueError(f"make_generator ended early: it yielded {num_elements} of {expected} elements of an epoch")
    if expected is not None and num_elements > expected:
        fix = "stop after that many, or correct elements_per_epoch"
        raise ValueError(f"make_generator yielded {num_elements} elements in an epoch of {expected}; {fix}")


def _empty_epoch(num_skipped: int) -> ValueError:
    if num_skipped:
        return ValueError(f"make_generator skipped all {num_skipped} elements of an epoch")
    return ValueError("make_generator yielded nothing; it must return a fresh iterator at every call")


def _fits(value: Nest, signature: Nest) -> bool:
    if isinstance(signature, dict):
        is_like = isinstance(value, dict) and value.keys() == signature.keys()
        return is_like and all(_fits(value[key], signature[key]) for key in signature)
    if isinstance(signature, tuple):
        is_like = isinstance(value, tuple) and len(value) == len(signature)
        return is_like and all(map(_fits, value, signature))
    if isinstance(value, dict | tuple) or not signature.shape.is_compatible_with(np.shape(value)):
        return False
    if hasattr(value, "dtype"):
        return tf.as_dtype(value.dtype) == signature.dtype
    try:
        tf.make_tensor_proto(value, dtype=signature.dtype)
    except (TypeError, ValueError):
        return False
    return True
