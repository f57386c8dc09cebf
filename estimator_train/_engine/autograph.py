"""Keeps AutoGraph, which is for the code of users, away from that of the library."""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

Function = TypeVar("Function", bound=Callable[..., Any])


def unconverted(function: Function) -> Function:
    """Returns `function` and what it calls without AutoGraph, 0.1 s for each at the start. Not if it calls a user's."""
    return tf.autograph.experimental.do_not_convert(function)
