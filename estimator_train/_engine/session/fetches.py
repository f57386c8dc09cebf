"""The fetches of a session: any structure of tensors, ops, variables and names."""

import copy
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import tensorflow as tf

_Made = TypeVar("_Made")


def map_fetches(fn: Callable[[Any], Any], fetches: Any) -> Any:
    """Applies `fn` to the leaves; tf.nest could not sort the keys, which may be hooks and 'caller'."""
    if isinstance(fetches, dict):
        mapped = copy.copy(fetches)  # a defaultdict's constructor takes no items alone
        mapped.update((key, map_fetches(fn, value)) for key, value in fetches.items())
        return mapped
    if isinstance(fetches, tuple) and hasattr(fetches, "_fields"):
        return type(fetches)(*(map_fetches(fn, value) for value in fetches))
    if isinstance(fetches, (list, tuple)):
        return type(fetches)(map_fetches(fn, value) for value in fetches)
    return fn(fetches)


class MadeOfFetches(Generic[_Made]):
    """What `make` returns for the list of leaves of fetches; it is made once for those that each step asks for.

    >>> count = MadeOfFetches(len)
    >>> count({"loss": "loss:0", "ops": ["train", "loss:0"]})
    3
    """

    def __init__(self, make: Callable[[list[Any]], _Made]) -> None:
        self._make = make
        self._made: dict[tuple[int | str, ...], tuple[_Made, list[Any]]] = {}  # by names and ids of leaves kept alive

    def __call__(self, fetches: Any) -> _Made:
        leaves: list[Any] = []
        map_fetches(leaves.append, fetches)
        key = tuple(map(_key_of, leaves))
        if key in self._made:
            return self._made[key][0]
        made = self._make(leaves)
        if all(isinstance(leaf, str | tf.Tensor | tf.Operation | tf.Variable) for leaf in leaves):  # others may be new
            self._made[key] = made, leaves
        return made


def _key_of(leaf: Any) -> int | str:
    return leaf if isinstance(leaf, str) else id(leaf)
