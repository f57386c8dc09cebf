"""Looks into JSON that a run, a killed process or somebody else may have written."""

import json
from typing import Any

NUMBER = (int, float)


def parsed(text: str | bytes) -> Any:
    """Parses JSON; returns None if it is malformed."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def has(value: Any, **kinds: Any) -> bool:
    """Returns whether `value` is a dict with values of some types.

    >>> has({"step": 2, "metrics": {}}, step=int, metrics=dict)
    True
    """
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in kinds.items())
