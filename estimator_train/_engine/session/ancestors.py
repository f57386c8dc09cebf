"""Finds what an operation of a v1 graph needs."""

from collections.abc import Iterable

import tensorflow as tf


def ancestors(ops: Iterable[tf.Operation]) -> set[tf.Operation]:
    """Returns `ops` and all operations that they need, by their inputs and control inputs."""
    queue = list(ops)
    seen = set(queue)
    while queue:
        op = queue.pop()
        new = {*op.control_inputs, *(tensor.op for tensor in op.inputs)} - seen
        seen |= new
        queue += new
    return seen
