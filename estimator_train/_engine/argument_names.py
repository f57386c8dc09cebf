"""The arguments that functions take."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def argument_names(function: Callable[..., Any]) -> list[str]:
    """Returns the names of a function's arguments, except `*args`, `**kwargs` and those that a partial has bound."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    bound = getattr(inspect.unwrap(function), "keywords", {})
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind not in kinds and parameter.name not in bound]


def with_defaults(function: Callable[..., Any], **defaults: Any) -> inspect.Signature:
    """Returns the function's signature with other defaults for those of its arguments that are among `defaults`."""
    signature = inspect.signature(function)
    changed = signature.parameters | {
        name: signature.parameters[name].replace(default=default)
        for name, default in defaults.items()
        if name in signature.parameters
    }
    return signature.replace(parameters=list(changed.values()))


def bind(signature: inspect.Signature, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Returns the arguments that a function with this signature receives, by name, including the defaults."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def taken_by(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of the arguments `offered` that a function takes."""
    return {name: offered[name] for name in argument_names(function) if name in offered}
