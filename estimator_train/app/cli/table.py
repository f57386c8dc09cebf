"""The flags of the command: one for each setting, in the groups of the help."""

from collections.abc import Callable
from typing import Any

import cloup
from cloup.typing import F

from estimator_train.app.cli.parameters import Value
from estimator_train.app.errors import as_flag
from estimator_train.app.runs.fields import help_of, settings_in


def option(table: type, name: str, **changes: Any) -> Callable[[F], F]:
    """Returns the decorator for the flag of a field; `changes` are arguments of `click.option` to use instead."""
    setting = settings_in(table)[name]
    values = {"is_flag": True} if setting.kind is None else {"type": Value(setting.kind), "metavar": setting.metavar}
    arguments = {"help": help_of(table, name), "envvar": setting.envvar} | values | changes
    return cloup.option(as_flag(name), **arguments)


def options(*tables: type) -> Callable[[F], F]:
    """Returns the decorator for all flags of the tables, in the groups of their fields."""

    def decorate(command: F) -> F:
        groups = {}
        for table in tables:
            for name, each in settings_in(table).items():
                groups.setdefault(each.group, []).append(option(table, name))
        for group, flags in reversed(groups.items()):
            command = cloup.option_group(group, *flags)(command)
        return command

    return decorate
