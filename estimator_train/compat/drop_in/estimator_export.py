"""The old module `estimator_export`, whose decorator registered the library's public names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_Exported = TypeVar("_Exported")


def estimator_export(*names: str, v1: Sequence[str] | None = None) -> Callable[[_Exported], _Exported]:
    """Returns a decorator that does nothing: classes and functions are not registered anywhere."""
    del names, v1
    return lambda exported: exported
