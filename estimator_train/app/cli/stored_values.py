"""Checks the settings in a run.json, which somebody else, or another version of the command, may have written."""

import json
import types
import typing
from collections.abc import Mapping
from typing import Any

import click

from estimator_train.app.cli import parameters as kinds
from estimator_train.app.cli.table import settings_in

# Types whose values are right or wrong on every machine. A function or a file may be elsewhere, and not be needed.
_SAME_EVERYWHERE = (click.Choice, click.IntRange, click.FloatRange, kinds.ImageSize, kinds.Augmentations, kinds.Phases)


def fields_of(values: Mapping[str, Any], table: type) -> dict[str, Any]:
    """Returns stored `values` of the fields of the `table`, as their types have them, and checked as flags are.

    Other names are left out if they have no value: a newer version of the command stores all of its flags.
    Raises ValueError for one with a value, and for a value that has the wrong type or is out of range.
    """
    hints = typing.get_type_hints(table)
    fields = {}
    for name, value in values.items():
        if name in hints:
            fields[name] = tuple(value) if isinstance(value, list) else value  # JSON has no tuples
            _check(name, fields[name], hints[name], settings_in(table).get(name))
        elif value is not None and value is not False:
            raise ValueError(
                f"{name} is {json.dumps(value)}, and this version does not know it; update estimator_train"
            )
    return fields


def _check(name, value, hint, setting):
    remedy = "delete the file, or use another folder"
    if not _is_of(value, hint):
        raise ValueError(f"{name} is {json.dumps(value)}; {remedy}")
    if value is None or setting is None or not isinstance(setting.kind, _SAME_EVERYWHERE):
        return
    try:
        setting.kind.convert(value, None, None)
    except click.BadParameter as error:
        raise ValueError(f"{name}: {error.message.rstrip('.')}; {remedy}") from error


def _is_of(value, kind):
    """Checks a value against a type used in the tables: a class, a tuple of one class, or either of them or None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return any(_is_of(value, each) for each in typing.get_args(kind))
    if kind is float:
        return type(value) in (float, int)
    if typing.get_origin(kind) is not tuple:
        return type(value) is kind
    each, *rest = typing.get_args(kind)
    is_any_length = rest == [Ellipsis]
    return type(value) is tuple and all(_is_of(item, each) for item in value) and (is_any_length or len(value) == 2)
