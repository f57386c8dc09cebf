"""Closes generators that a program has not read to the end, before Python takes its modules apart at exit."""

import atexit
import functools
import inspect
import weakref
from collections.abc import Callable, Generator
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Item = TypeVar("_Item")

_generators: weakref.WeakSet[Generator] = weakref.WeakSet()


def closed_at_exit(
    function: Callable[_Arguments, Generator[_Item, None, None]],
) -> Callable[_Arguments, Generator[_Item, None, None]]:
    """Decorates a generator function whose clean-up imports modules, which Python can no longer do afterwards."""

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Generator[_Item, None, None]:
        generator = function(*args, **kwargs)
        _generators.add(generator)
        return generator

    return call


@atexit.register
def close_all() -> None:
    """Closes all such generators but those that other threads are reading."""
    for generator in list(_generators):
        if inspect.getgeneratorstate(generator) != inspect.GEN_RUNNING:
            generator.close()
