"""Rules for settings that exclude or need each other, checked before TensorFlow is imported."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from estimator_train.app.errors import SettingError


class Excludes(NamedTuple):
    """`name` cannot be combined with any of `others`. `reason` may use {self} and {other}, and name others in braces.

    "name=value" matches a setting only if it has that value. Where a run is repeated, `name` replaces the `others` of
    that run, and if `mutual`, each of the others replaces it.
    """

    others: tuple[str, ...]
    reason: str = "{self} and {other} exclude each other; give one"
    name: str = ""  # a setting's rules get its name
    mutual: bool = False


class Needs(NamedTuple):
    """`name` requires at least one of `others`. `reason` may use {self}."""

    others: tuple[str, ...]
    reason: str
    name: str = ""


class Replaces(NamedTuple):
    """Giving another value for `name` when a run is repeated drops the run's `others`; both may be given together."""

    others: tuple[str, ...]
    name: str = ""


Rule = Excludes | Needs | Replaces


def check_rules(values: Mapping[str, Any], rules: Iterable[Rule]) -> None:
    """Raises SettingError with the reason of the first rule that `values`, given by their names, break.

    A setting counts as given if its value is true, so no rule can name one whose default is true.
    """
    for rule in rules:
        if isinstance(rule, Replaces) or not _is_given(values, rule.name):
            continue
        others = [_name_in(other) for other in rule.others if _is_given(values, other)]
        if bool(others) == isinstance(rule, Excludes):
            other = f"{{{others[0]}}}" if others else ""
            raise SettingError(rule.reason.replace("{self}", f"{{{rule.name}}}").replace("{other}", other))


def kept(stored: Mapping[str, Any], given: Mapping[str, Any], rules: Iterable[Rule]) -> dict[str, Any]:
    """Returns the `stored` settings of a run that hold if it is repeated with the settings `given`.

    Given ones replace those that they exclude, and what needs one of these is replaced, too. A setting given with the
    run's own value replaces nothing.
    """
    rules, left = tuple(rules), dict(stored)
    changed = {name: value for name, value in given.items() if value != stored.get(name)}
    for rule in rules:
        if not isinstance(rule, Needs) and _is_given(changed, rule.name):
            _remove(left, rule.others)
        if isinstance(rule, Excludes) and rule.mutual and any(_is_given(changed, other) for other in rule.others):
            _remove(left, [rule.name])
    for rule in rules:
        is_met = [any(_is_given(values, other) for other in rule.others) for values in (stored, left | dict(given))]
        if isinstance(rule, Needs) and is_met == [True, False]:
            _remove(left, [rule.name])
    return left


def _remove(values, names):
    for name in names:
        if _is_given(values, name):
            del values[_name_in(name)]


def _is_given(values, name):
    name, has_value, value = name.partition("=")
    if has_value:
        return values.get(name) == value
    return bool(values.get(name))


def _name_in(name):
    return name.partition("=")[0]
