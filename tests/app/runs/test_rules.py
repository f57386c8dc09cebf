"""Rules between flags: refusals, and which flags of a repeated run give way to those on the command line."""

import pytest

from estimator_train.app.errors import SettingError
from estimator_train.app.runs.rules import Excludes, Needs, Replaces, check_rules, kept

RULES = (
    Excludes(("b", "c"), name="a"),
    Excludes(("d=always",), "{self} is not for {other}", "a", mutual=True),
    Needs(("a",), "{self} needs {a}", "e"),
    Needs(("e",), "{self} needs {e}", "f"),
    Replaces(("g",), "a"),
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 1, "c": 2}, "a and c exclude each other; give one"),
        ({"a": 1, "d": "always"}, "a is not for d"),
        ({"e": 1}, "e needs a"),
    ],
)
def test_a_broken_rule_is_refused_with_its_reason(given, message):
    with pytest.raises(SettingError, match=message):
        check_rules(given, RULES)


@pytest.mark.parametrize(
    "given", [{}, {"a": 1}, {"b": 1, "c": 1}, {"a": 1, "d": "never"}, {"a": 1, "e": 1, "f": 1}, {"a": 1, "g": 1}]
)
def test_flags_that_keep_the_rules_are_accepted(given):
    check_rules(given, RULES)


@pytest.mark.parametrize(
    ("stored", "given", "left"),
    [
        ({"b": 1, "c": 2, "h": 3}, {"a": 1}, {"h": 3}),  # excluded
        ({"a": 1}, {"b": 1}, {"a": 1}),  # not mutual: check_rules refuses it
        ({"a": 1}, {"d": "always"}, {}),
        ({"d": "never"}, {"a": 1}, {"d": "never"}),
        ({"g": 1}, {"a": 1}, {}),
        ({"a": 1, "g": 1}, {"a": 2}, {"a": 1}),
        ({"a": 1, "g": 1}, {"a": 1}, {"a": 1, "g": 1}),  # the same value replaces nothing
        ({"a": 1, "e": 2, "f": 3}, {"d": "always"}, {}),  # what it needs is gone, and so on
        ({"e": 2}, {"b": 1}, {"e": 2}),  # its need has never been met: check_rules refuses it
        ({"a": 1, "e": 2}, {"a": 4, "d": "never"}, {"a": 1, "e": 2}),
    ],
)
def test_flags_of_a_run_give_way_to_those_given(stored, given, left):
    assert kept(stored, given, RULES) == left
