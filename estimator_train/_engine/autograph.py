"""Keeps AutoGraph, which is for the code of users, away from that of the library."""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

Function = TypeVar("Function", bound=Callable[..., Any])


def unconverted(function: Function) -> Function:
    """Returns `function` with AutoGraph switched off in it and in what it calls; not for what calls a user's function.

    A process that starts to train would otherwise convert some thirty functions of the library, 0.1 s each.
    """
    return tf.autograph.experimental.do_not_convert(function)
