"""Closes generators that a program has not read to the end, before Python takes its modules apart at exit."""

import atexit
import weakref
from collections.abc import Generator
from typing import Any, TypeVar

_Item = TypeVar("_Item")

_generators: weakref.WeakSet[Generator] = weakref.WeakSet()


def closed_at_exit(generator: Generator[_Item, None, None]) -> Generator[_Item, None, None]:
    """Returns a generator whose clean-up imports modules, which Python can no longer do after that."""
    _generators.add(generator)
    return generator


@atexit.register
def close_all() -> None:
    """Closes all such generators but those that other threads are reading."""
    each: Any
    for each in list(_generators):
        if not each.gi_running:
            each.close()
