"""What a Python generator yields, epoch by epoch. TensorFlow is not imported here: see generator_workers.py."""

from __future__ import annotations

import dataclasses
import inspect
import itertools


@dataclasses.dataclass(frozen=True)
class Skipped:
    """What a generator yields in place of an example that it cannot read.

    Args:
      what: tells which it is, and why, in a line.
    """

    what: str


@dataclasses.dataclass(frozen=True)
class Share:
    """What a worker process gets for a `tf.distribute.InputContext`: each is an input pipeline of its own."""

    num_input_pipelines: int
    input_pipeline_id: int
    num_replicas_in_sync: int


def epochs(make_generator, *, num_epochs, augment, input_context):
    """Yields the tuples of every epoch, augmented, and its `Skipped`s; and None behind each epoch."""
    parameters = inspect.signature(make_generator).parameters
    for epoch in itertools.count() if num_epochs is None else range(num_epochs):
        offered = {"input_context": input_context, "epoch": epoch}
        for element in make_generator(**{name: offered[name] for name in offered if name in parameters}):
            if isinstance(element, Skipped):
                yield element
            elif isinstance(element, tuple):
                yield augment(*element) if augment else element
            else:
                kind = type(element).__name__
                raise TypeError(f"make_generator yielded a {kind}, not a tuple (features, labels)")
        yield None


def in_turn(streams):
    """Yields what iterators over `epochs` yield, one of each in turn, and None where all of them have ended an epoch.

    Where each has every n-th example, from its own number on, they come in the order that one iterator would give.
    """
    while True:
        going_on = list(streams)
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
