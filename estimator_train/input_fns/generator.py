"""An input_fn from a Python generator."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train.host.generator_stream import Share, Skipped, epochs, in_turn
from estimator_train.host.generator_workers import in_workers
from estimator_train.host.host_memory import aligned_empty, keep_freed_memory
from estimator_train.input_fns.order import share_of_pipeline, without_first


def generator(
    make_generator: Callable[..., Iterator[Any]],
    *,
    batch_size: int | None = None,
    num_epochs: int | None = 1,
    output_signature: Any = None,
    augment: Callable[[Any, Any], tuple[Any, Any]] | None = None,
    elements_per_epoch: int | None = None,
    workers: int = 0,
) -> GeneratorExamples:
    """Returns an input_fn over what Python code yields.

        >>> def squares():
        ...     for number in range(4):
        ...         yield np.float32(number), np.float32(number**2)
        >>> input_fn = et.input_fns.generator(squares, batch_size=2)
        >>> [labels.numpy().tolist() for numbers, labels in input_fn()]
        [[0.0, 1.0], [4.0, 9.0]]

    Args:
      make_generator: a function that returns a fresh iterator of tuples (features, labels), each an array,
        a number, or a dict or tuple of such; called once an epoch. The tuples are examples, or batches
        without `batch_size`. In place of one that cannot be read it may yield `input_fns.Skipped("which, and why")`:
        those are left out, logged, and in the list `input_fn.skipped`, each once.
      batch_size: examples a batch on each replica; only the very last batch may be short. None: tuples are
        batches.
      num_epochs: passes, each with a new iterator; None is forever.
      output_signature: nested `tf.TensorSpec` of one tuple. None takes that of the first tuple of an
        iterator made for this alone, and leaves the leading dimension of batches open. An unknown rank, too, is that
        of the first tuple.
      augment: a function (features, labels) -> (features, labels) of numpy and Python, called on every
        tuple in every epoch, before the signature is checked.
      elements_per_epoch: how many tuples, skipped ones counted, every epoch of an input pipeline has; one that ends
        earlier, or continues, is an error. None: as many as there are.
      workers: processes that run the iterators and `augment`, of which each is an input pipeline of its own, with the
        context of one; they give a tuple each in turn. 0: this process. What they are sent must be picklable by
        cloudpickle; what they have to import, with TensorFlow if need be, is imported in each of them.

    The input_fn takes an optional `tf.distribute.InputContext`. Every input pipeline calls `make_generator`
    itself, and nothing shards what it yields: a `make_generator` with a parameter `input_context` gets the
    context for that, which is to say `num_input_pipelines` and `input_pipeline_id`. One with a parameter `epoch` gets
    the number of the epoch, from 0, for one.

    Training that is resumed with `RunConfig(resume_input=True)` begins in the epoch where it stopped if both
    `batch_size` and `elements_per_epoch` are given; otherwise it reads everything before. A `make_generator` with a
    parameter `first` gets the number of the element, from 0, that its first epoch is to begin with, and yields none
    before; without it, those are made and dropped. It has to yield the same elements in the same order each time. What
    it skipped was not trained on, so that as many examples come again.

    Raises:
      ValueError: `batch_size` is not positive, or there are several workers, but `make_generator` has no parameter
        `input_context`: each would yield everything. From the input_fn, where the iterator made to infer the signature
        yields nothing, or a scalar in a batch.
      tf.errors.OpError: from the dataset, with type, message and traceback of what the Python code raised;
        with the number of the element that does not fit the signature; where an epoch yields nothing or ends early;
        where `make_generator` returns one iterator twice, or a worker is killed.
    """
    keep_freed_memory()
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, or None for tuples that are batches; got {batch_size!r}")
    if workers < 0:
        raise ValueError(f"workers must be 0 or above, got {workers}")
    if workers > 1 and "input_context" not in inspect.signature(make_generator).parameters:
        fix = "give it a parameter input_context, and yield the share of that input pipeline"
        raise ValueError(f"each of {workers} workers would yield all that make_generator yields; {fix}")
    return GeneratorExamples(
        make_generator, batch_size, num_epochs, output_signature, augment, elements_per_epoch, workers
    )


@dataclasses.dataclass(frozen=True, eq=False)
class GeneratorExamples:
    """The input_fn that `generator` returns, with its arguments. Follows the protocol `StartsAnywhere`.

    Attributes:
      skipped: what the `Skipped`s met so far say, each once.
      first: how many examples are left out at the beginning, over all epochs and input pipelines.
    """

    make_generator: Callable
    batch_size: int | None
    num_epochs: int | None
    output_signature: Any
    augment: Callable | None
    elements_per_epoch: int | None
    workers: int
    skipped: list[str] = dataclasses.field(default_factory=list)
    first: int = 0

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        context = input_context or tf.distribute.InputContext()
        signature = self._signature(context)
        jumps = self.batch_size is not None and self.elements_per_epoch is not None
        before = share_of_pipeline(self.first, context)
        epoch, first = divmod(before, self.elements_per_epoch) if jumps else (0, 0)

        def items():
            arguments = {"num_epochs": self.num_epochs, "augment": self.augment}
            if not self.workers:
                yield from epochs(self._make_fresh, input_context=context, start=(epoch, first), **arguments)
                return
            functions = [
                functools.partial(
                    epochs,
                    self.make_generator,
                    input_context=share,
                    start=(epoch, len(range(worker, first, self.workers))),
                    **arguments,
                )
                for worker, share in enumerate(_shares(context, self.workers))
            ]
            with in_workers(functions) as streams:
                yield from in_turn(streams, first)

        def elements():
            return _checked(items(), signature, self.elements_per_epoch, self.skipped, first)

        def batches():
            # Not by Dataset.batch: an element that tf.data takes from Python costs more than a small batch made here.
            return _batches(itertools.islice(elements(), 0 if jumps else before, None), self.batch_size, signature)

        if self.batch_size is None:
            dataset = without_first(tf.data.Dataset.from_generator(elements, output_signature=signature), before)
        else:
            of_batch = tf.nest.map_structure(lambda spec: tf.TensorSpec([None, *spec.shape], spec.dtype), signature)
            dataset = tf.data.Dataset.from_generator(batches, output_signature=of_batch)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)

    def starting_at(self, examples: int, seed: int) -> GeneratorExamples:
        return dataclasses.replace(self, first=examples)

    def _signature(self, context):
        signature = self.output_signature
        if signature is not None and all(spec.shape.rank is not None for spec in tf.nest.flatten(signature)):
            return signature
        first = _first(epochs(self._make_fresh, num_epochs=1, augment=self.augment, input_context=context))
        return _with_ranks(signature, _signature_of(first, batched=self.batch_size is None))

    @functools.cached_property
    def _make_fresh(self):
        return _refusing_the_last(self.make_generator)


def _refusing_the_last(make_generator):
    """`make_generator`, which may not return the iterator that it has returned the last time: it is used already."""
    last = None

    @functools.wraps(make_generator)
    def make_fresh(**offered):
        nonlocal last
        made = make_generator(**offered)
        if made is last and iter(made) is made:
            raise ValueError(
                "make_generator returned one iterator twice; it must return a fresh iterator at every call"
            )
        last = made
        return made

    return make_fresh


def _shares(context, workers):
    pipelines, first = context.num_input_pipelines * workers, context.input_pipeline_id * workers
    return [Share(pipelines, first + worker, context.num_replicas_in_sync) for worker in range(workers)]


def _first(items):
    num_skipped = 0
    for item in items:
        if isinstance(item, Skipped):
            num_skipped += 1
        elif item is not None:
            return item
    _check_epoch(0, num_skipped, None)


def _with_ranks(signature, inferred):
    """`signature`, with the ranks of `inferred` where they are unknown: Keras cannot tell what "acc" means without."""
    if signature is None:
        return inferred
    return tf.nest.map_structure(
        lambda spec, like: tf.TensorSpec([None] * like.shape.rank, spec.dtype) if spec.shape.rank is None else spec,
        signature,
        inferred,
    )


def _signature_of(value, batched):
    if isinstance(value, dict):
        return {key: _signature_of(item, batched) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_signature_of(item, batched) for item in value)
    if not hasattr(value, "dtype"):
        # Python numbers take the dtypes that TensorFlow gives them: 1.0 is float32.
        value = tf.make_ndarray(tf.make_tensor_proto(value))
    if batched and not value.shape:
        raise ValueError(f"make_generator put a scalar {value} in a batch; pass batch_size for examples")
    shape = (None, *value.shape[1:]) if batched else value.shape
    return tf.TensorSpec(shape, tf.as_dtype(value.dtype))


def _checked(items, signature, elements_per_epoch, skipped, first):
    """The tuples among `items`, of `epochs`; each of them, and the number of every epoch's, as announced.

    `first`: how many elements the first epoch lacks at its beginning.
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
                f"element {number} (from 0) of make_generator is {got}, expected {signature}; "
                "pass output_signature if the elements may differ"
            )
        else:
            yield item
            number += 1
            num_yielded += 1


def _batches(examples, batch_size, signature):
    """Yields batches of the examples; the last may be short. An example is copied at once: it may be changed later."""
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
                    fix = "give them one shape, or yield batches and leave out batch_size"
                    raise ValueError(f"examples of one batch have the shapes {shape} and {np.shape(part)}; {fix}")
                column[number] = part
            number += 1
        yield tf.nest.pack_sequence_as(signature, [column[:number] for column in columns])


def _parts(value, signature):
    """The arrays and numbers in `value`, in the order of tf.nest.flatten(signature)."""
    if isinstance(signature, dict):
        return [part for key in sorted(signature) for part in _parts(value[key], signature[key])]
    if isinstance(signature, tuple):
        return [part for item, spec in zip(value, signature, strict=True) for part in _parts(item, spec)]
    return [value]


def _check_epoch(num_yielded, num_skipped, expected):
    num_elements = num_yielded + num_skipped
    if not num_elements:
        raise ValueError("make_generator yielded nothing; it must return a fresh iterator at every call")
    if not num_yielded:
        raise ValueError(f"make_generator skipped all {num_skipped} elements of an epoch")
    if expected is not None and num_elements < expected:
        raise ValueError(f"make_generator ended early: it yielded {num_elements} of {expected} elements of an epoch")
    if expected is not None and num_elements > expected:
        fix = "end it there, or give as many to elements_per_epoch"
        raise ValueError(f"make_generator yielded {num_elements} elements in an epoch of {expected}; {fix}")


def _fits(value, signature):
    if isinstance(signature, dict):
        return (
            isinstance(value, dict)
            and value.keys() == signature.keys()
            and all(_fits(value[key], signature[key]) for key in signature)
        )
    if isinstance(signature, tuple):
        return (
            isinstance(value, tuple)
            and len(value) == len(signature)
            and all(_fits(item, spec) for item, spec in zip(value, signature, strict=True))
        )
    if isinstance(value, dict | tuple) or not signature.shape.is_compatible_with(np.shape(value)):
        return False
    if hasattr(value, "dtype"):
        return tf.as_dtype(value.dtype) == signature.dtype
    try:
        tf.make_tensor_proto(value, dtype=signature.dtype)
    except (TypeError, ValueError):
        return False
    return True
