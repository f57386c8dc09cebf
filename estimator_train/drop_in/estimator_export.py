"""The old module `estimator_export`, whose decorator gave a name to what the library exported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_Exported = TypeVar("_Exported")


def estimator_export(*names: str, v1: Sequence[str] | None = None) -> Callable[[_Exported], _Exported]:
    """A decorator that leaves a class or function as it is; the names are nowhere exported."""
    del names, v1
    return lambda exported: exported
