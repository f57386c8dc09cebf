"""Keeps AutoGraph, which is for the code of users, away from that of the library."""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

Function = TypeVar("Function", bound=Callable[..., Any])


def unconverted(function: Function) -> Function:
    """Returns `function`, which calls none of the user's, without AutoGraph: it takes 0.1 s for each of some thirty."""
    return tf.autograph.experimental.do_not_convert(function)
