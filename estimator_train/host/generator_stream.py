"""Reads a Python generator epoch by epoch. TensorFlow is not imported here: see generator_workers.py."""

from __future__ import annotations

import dataclasses
import inspect
import itertools


@dataclasses.dataclass(frozen=True)
class Skipped:
    """Yielded by a generator in place of an example that it cannot read.

    Args:
      what: tells which it is, and why, in a line.
    """

    what: str


@dataclasses.dataclass(frozen=True)
class Share:
    """A worker process's counterpart of `tf.distribute.InputContext`: each worker is its own input pipeline."""

    num_input_pipelines: int
    input_pipeline_id: int
    num_replicas_in_sync: int


def epochs(make_generator, *, num_epochs, augment, input_context, start=(0, 0)):
    """Yields the tuples of every epoch, augmented, and its `Skipped`s; and None behind each epoch.

    `start`: the epoch and the number of its element to begin with. A generator without a parameter `first` makes the
    elements before, too.
    """
    parameters = inspect.signature(make_generator).parameters
    first_epoch, first = start
    for epoch in itertools.count(first_epoch) if num_epochs is None else range(first_epoch, num_epochs):
        offered = {"input_context": input_context, "epoch": epoch, "first": first}
        elements = make_generator(**{name: offered[name] for name in offered if name in parameters})
        if "first" not in parameters:
            elements = itertools.islice(elements, first, None)
        first = 0
        for element in elements:
            if isinstance(element, Skipped):
                yield element
            elif isinstance(element, tuple):
                yield augment(*element) if augment else element
            else:
                kind = type(element).__name__
                raise TypeError(f"make_generator yielded a {kind}, not a tuple (features, labels)")
        yield None


def in_turn(streams, first=0):
    """Yields what iterators over `epochs` yield, one of each in turn, and None where all of them have ended an epoch.

    Where each has every n-th example, from its own number on, they come in the order that one iterator would give.
    `first`: how many examples of the first epoch have been yielded before.
    """
    behind = first % len(streams)
    while True:
        going_on, behind = [*streams[behind:], *streams[:behind]], 0
        while going_on:
            for stream in list(going_on):
                try:
                    item = next(stream)
                except StopIteration:  # all have as many epochs
                    return
                if item is None:
                    going_on.remove(stream)
                else:
                    yield item
        yield None
