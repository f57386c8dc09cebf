"""The arguments that a function of the user takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def argument_names(function: Callable[..., Any]) -> list[str]:
    """Returns the names of a function's arguments, except `*args`, `**kwargs` and those that a partial has bound."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    bound = getattr(inspect.unwrap(function), "keywords", {})
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind not in kinds and parameter.name not in bound]


def taken_by(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of the arguments `offered` that a function takes."""
    return {name: offered[name] for name in argument_names(function) if name in offered}
