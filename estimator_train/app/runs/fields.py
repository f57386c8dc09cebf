"""How a setting is declared: a dataclass field made by `setting`, whose docstring says what it is for.

Everything else that concerns a setting is read from such fields: the keywords of `et.runs.new`, the flags of the
command, their help and completion, the rules, run.json, what --resume may change, the plan, and the tables in
docs/flags.md.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from estimator_train.app.runs.rules import Rule
from estimator_train.app.runs.values import Kind


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """The facts that a field states about its setting."""

    group: str  # heading in the help of the command
    kind: Kind | None  # of the value; None for what is on or off, a flag without a value
    rules: tuple[Rule, ...] = ()  # what the setting excludes, needs or replaces
    metavar: str | None = None  # how the help names the value, if not as `kind` does
    names: Iterable[str] = ()  # what {names} stands for in the help
    may_change: bool = False  # whether a resumed run may have another value
    plan: str | None = None  # the line of the plan that says the value, if not one of its own name; "" if none does
    phrase: str = ""  # the part of that line, if it is made of the phrases of several settings
    is_of_config: bool = False  # whether it is an argument of RunConfig of the same name
    envvar: tuple[str, ...] | None = None  # environment variables that hold a default


def setting(group: str, kind: Kind | None = None, *rules: Rule, default: Any = None, **about: Any) -> Any:
    """Returns a dataclass field that is a setting; see `Declaration` for the arguments.

    `default` is the value of the field if none is given; what is on or off is then off.
    """
    default = False if kind is None else default
    about = {"setting": Declaration(group=group, kind=kind, rules=rules, **about)}
    return dataclasses.field(default=default, metadata=about)


@functools.cache
def settings_in(*tables: type) -> dict[str, Declaration]:
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
    return tuple(rule._replace(name=rule.name or name) for name, rule in rules)


def help_of(table: type, name: str) -> str:
    """Returns what a setting is for, the docstring below its field."""
    tree = _classes_in(inspect.getfile(table))[table.__name__]
    (text,) = (
        below.value.value
        for field, below in itertools.pairwise(tree.body)
        if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == name
    )
    return inspect.cleandoc(text.format(names=", ".join(settings_in(table)[name].names)))


@functools.cache
def _classes_in(file):
    return {node.name: node for node in ast.parse(Path(file).read_bytes()).body if isinstance(node, ast.ClassDef)}


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
