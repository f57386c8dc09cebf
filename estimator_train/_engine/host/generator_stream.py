"""Reads a Python generator epoch by epoch, without importing TensorFlow; generator_workers.py explains why."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from estimator_train._engine.argument_names import taken_by


@dataclasses.dataclass(frozen=True)
class Skipped:
    """A placeholder that a generator yields for an example that it cannot read.

        >>> def examples():
        ...     yield np.float32(1), np.float32(2)
        ...     yield et.input_fns.Skipped("row 2: has no label")
        >>> input_fn = et.input_fns.generator(examples, batch_size=2)
        >>> [labels.numpy().tolist() for features, labels in input_fn()]
        [[2.0]]
        >>> input_fn.skipped
        ['row 2: has no label']

    Args:
      what: one line that names the example and the reason.
    """

    what: str


@dataclasses.dataclass(frozen=True)
class Share:
    """The counterpart of `tf.distribute.InputContext` in a worker process; each worker is its own input pipeline."""

    num_input_pipelines: int
    input_pipeline_id: int
    num_replicas_in_sync: int


Item: TypeAlias = tuple | Skipped  # an example, a tuple (features, labels), or a placeholder for one


def epochs(
    make_generator: Callable[..., Iterable[Item]],
    *,
    num_epochs: int | None,
    augment: Callable[..., tuple] | None,
    input_context: Any,
    start: tuple[int, int] = (0, 0),
) -> Iterator[Item | None]:
    """Yields the augmented tuples and the `Skipped`s of every epoch, and None after each epoch.

    `start` is a pair: the epoch to start in and the number of its first element. If `make_generator` has no parameter
    `first`, earlier elements of that epoch are generated and dropped.
    """
    first_epoch, first = start
    for epoch in itertools.count(first_epoch) if num_epochs is None else range(first_epoch, num_epochs):
        taken = taken_by(make_generator, {"input_context": input_context, "epoch": epoch, "first": first})
        elements = make_generator(**taken)
        if "first" not in taken:
            elements = itertools.islice(elements, first, None)
        first = 0
        for element in elements:
            source = "make_generator yielded"
            if augment and isinstance(element, tuple):
                source, element = "augment returned", augment(*element)
            if not isinstance(element, tuple | Skipped):
                raise TypeError(f"{source} a {type(element).__name__}, not a tuple (features, labels)")
            yield element
        yield None


def in_turn(streams: Sequence[Iterator[Item | None]], first: int = 0) -> Iterator[Item | None]:
    """Yields one item of each iterator over `epochs` in turn, and None once all of them have ended an epoch.

    If worker i of n has every n-th example from the i-th on, the order is the same as for a single iterator. `first` is
    the number of examples of the first epoch that have been yielded already.
    """
    behind = first % len(streams)
    while True:
        going_on, behind = [*streams[behind:], *streams[:behind]], 0
        while going_on:
            for stream in list(going_on):
                try:
                    item = next(stream)
                except StopIteration:  # all have the same number of epochs
                    return
                if item is None:
                    going_on.remove(stream)
                else:
                    yield item
        yield None
