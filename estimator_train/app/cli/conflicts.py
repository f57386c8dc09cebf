"""Rules for flags that exclude or need each other, checked before TensorFlow is imported."""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import click


class Excludes(NamedTuple):
    """`flag` cannot be combined with any of `others`. `reason` may use {flag} and {other}.

    Flags are given by their Python names; "name=value" matches a flag only if it has that value. On a command line that
    repeats a run, `flag` replaces the `others` of that run, and if `mutual`, each of the others replaces it.
    """

    others: tuple[str, ...]
    reason: str = "{flag} and {other} exclude each other; give one"
    flag: str = ""  # a setting's rules get its name
    mutual: bool = False


class Needs(NamedTuple):
    """`flag` requires at least one of `others`. `reason` may use {flag}."""

    others: tuple[str, ...]
    reason: str
    flag: str = ""


class Replaces(NamedTuple):
    """On a command line that repeats a run, another value of `flag` replaces the `others`; both may be given."""

    others: tuple[str, ...]
    flag: str = ""


Rule = Excludes | Needs | Replaces


def check_conflicts(flags: SimpleNamespace, rules: Iterable[Rule]) -> None:
    """Rejects `flags`, given by their Python names, with the reason of the first rule that they break.

    A flag counts as given if its value is true, so no rule can name a flag whose default is true.
    """
    for rule in rules:
        if isinstance(rule, Replaces) or not _is_given(vars(flags), rule.flag):
            continue
        others = [flag_of(other) for other in rule.others if _is_given(vars(flags), other)]
        if bool(others) == isinstance(rule, Excludes):
            raise click.ClickException(rule.reason.format(flag=flag_of(rule.flag), other="".join(others[:1])))


def kept(stored: Mapping[str, Any], given: Mapping[str, Any], rules: Iterable[Rule]) -> dict[str, Any]:
    """Returns the `stored` flags of a run that hold if it is repeated with the flags `given` on the command line.

    Given flags replace those that they exclude, and what needs one of these is replaced, too. A flag given with the
    run's own value replaces nothing.
    """
    rules, left = tuple(rules), dict(stored)
    changed = {name: value for name, value in given.items() if value != stored.get(name)}
    for rule in rules:
        if not isinstance(rule, Needs) and _is_given(changed, rule.flag):
            _remove(left, rule.others)
        if isinstance(rule, Excludes) and rule.mutual and any(_is_given(changed, other) for other in rule.others):
            _remove(left, [rule.flag])
    for rule in rules:
        is_met = [any(_is_given(flags, other) for other in rule.others) for flags in (stored, left | dict(given))]
        if isinstance(rule, Needs) and is_met == [True, False]:
            _remove(left, [rule.flag])
    return left


def _remove(flags, names):
    for name in names:
        if _is_given(flags, name):
            del flags[name.partition("=")[0]]


def _is_given(flags, name):
    name, has_value, value = name.partition("=")
    if has_value:
        return flags.get(name) == value
    return bool(flags.get(name))


def flag_of(name: str) -> str:
    """Returns the flag of a parameter, such as --data-dir for data_dir, or freeze=none."""
    return f"--{name.partition('=')[0].replace('_', '-')}"
