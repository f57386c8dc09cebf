"""The fetches of a session: any structure of tensors, ops, variables and names."""

from collections.abc import Callable
from typing import Any


def map_fetches(fn: Callable[[Any], Any], fetches: Any) -> Any:
    """Applies `fn` to the leaves; tf.nest could not sort the keys, which may be hooks and 'caller'."""
    if isinstance(fetches, dict):
        return type(fetches)((key, map_fetches(fn, value)) for key, value in fetches.items())
    if isinstance(fetches, tuple) and hasattr(fetches, "_fields"):
        return type(fetches)(*(map_fetches(fn, value) for value in fetches))
    if isinstance(fetches, (list, tuple)):
        return type(fetches)(map_fetches(fn, value) for value in fetches)
    return fn(fetches)
