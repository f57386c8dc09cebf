"""How a setting is declared: a dataclass field made by `setting`, whose docstring is the help of its flag.

Everything else that concerns a flag is read from such fields: the command line, the rules, run.json, what --resume may
change, the plan, completion, and the tables in docs/command.md.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import cloup

from estimator_train.app.cli.conflicts import Rule, flag_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """The facts that a field states about its flag."""

    group: str  # heading of the flag in the help
    kind: click.ParamType | None  # type of the value; None for a flag without one
    rules: tuple[Rule, ...] = ()  # what the flag excludes, needs or replaces
    metavar: str | None = None  # how the help names the value, if not as `kind` does
    names: Iterable[str] = ()  # what {names} stands for in the help
    may_change: bool = False  # whether a resumed run may have another value
    plan: str | None = None  # the line of the plan that says the value, if not one of its own name; "" if none does
    phrase: str = ""  # the part of that line, if it is made of the phrases of several settings
    is_of_config: bool = False  # whether it is an argument of RunConfig of the same name
    envvar: tuple[str, ...] | None = None  # environment variables that hold a default


def setting(group: str, kind: click.ParamType | None = None, *rules: Rule, default: Any = None, **about: Any) -> Any:
    """Returns a dataclass field that is also a flag; see `Setting` for the arguments.

    `default` is the value of the field if the flag is not given; a flag without a value is then False.
    """
    default = False if kind is None else default
    about = {"setting": Setting(group=group, kind=kind, rules=rules, **about)}
    return dataclasses.field(default=default, metadata=about)


@functools.cache
def settings_in(*tables: type) -> dict[str, Setting]:
    """Returns the settings of dataclasses by the names of their fields."""
    fields = (field for table in tables for field in dataclasses.fields(table))
    return {field.name: field.metadata["setting"] for field in fields if "setting" in field.metadata}


def given_of(values: Mapping[str, Any], *tables: type) -> dict[str, Any]:
    """Returns the settings of dataclasses that `values` gives another value than their default, by their names."""
    defaults = {field.name: field.default for table in tables for field in dataclasses.fields(table)}
    named = {name: values.get(name) for name in settings_in(*tables)}
    return {name: value for name, value in named.items() if value is not None and value != defaults[name]}


def rules_of(*tables: type) -> tuple[Rule, ...]:
    """Returns the rules of all settings, in order."""
    rules = [(name, rule) for name, each in settings_in(*tables).items() for rule in each.rules]
    return tuple(rule._replace(flag=rule.flag or name) for name, rule in rules)


def help_of(table: type, name: str) -> str:
    """Returns the help of a flag, the docstring below its field."""
    tree = _classes_in(inspect.getfile(table))[table.__name__]
    (text,) = (
        below.value.value
        for field, below in itertools.pairwise(tree.body)
        if isinstance(field, ast.AnnAssign) and field.target.id == name
    )
    return inspect.cleandoc(text.format(names=", ".join(settings_in(table)[name].names)))


@functools.cache
def _classes_in(file):
    return {node.name: node for node in ast.parse(Path(file).read_bytes()).body if isinstance(node, ast.ClassDef)}


def option(table: type, name: str, **changes: Any) -> Callable[[Any], Any]:
    """Returns the decorator for the flag of a field; `changes` are arguments of `click.option` to use instead."""
    setting = settings_in(table)[name]
    values = {"is_flag": True} if setting.kind is None else {"type": setting.kind, "metavar": setting.metavar}
    arguments = {"help": help_of(table, name), "envvar": setting.envvar} | values | changes
    return cloup.option(flag_of(name), **arguments)


def options(*tables: type) -> Callable[[Any], Any]:
    """Returns the decorator for all flags of the tables, in the groups of their fields."""

    def decorate(command):
        groups = {}
        for table in tables:
            for name, each in settings_in(table).items():
                groups.setdefault(each.group, []).append(option(table, name))
        for group, flags in reversed(groups.items()):
            command = cloup.option_group(group, *flags)(command)
        return command

    return decorate


def lines_of(values: Any) -> dict[str, str]:
    """Returns {line of the plan: text} for the settings of a dataclass that have a value."""
    return {each.plan or name: text_of(value) for name, each, value in _present(values) if each.plan != ""}


def phrases_of(values: Any, line: str) -> list[str]:
    """Returns what such settings say in a line of the plan that is made of several."""
    return [each.phrase.format(value) for name, each, value in _present(values) if each.phrase and each.plan == line]


def _present(values):
    """Yields (name, setting, value) of the settings that have a value."""
    for name, each in settings_in(type(values)).items():
        value = getattr(values, name)
        if value is not None and value is not False and value != ():
            yield name, each, value


def text_of(value: Any) -> str:
    """Returns the value of a setting as the plan and errors say it, such as 24x32 for a size."""
    if value is None:
        return "its default"
    if not isinstance(value, tuple):
        return str(value)
    if not value:
        return "none"
    if isinstance(value[0], int):
        return "x".join(map(str, value))
    return ", ".join(map(str, value))
