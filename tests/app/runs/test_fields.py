"""The fields of the table describe flags: the value of each in the plan, and the line in which it stands."""

import dataclasses

import pytest

from estimator_train.app.runs.fields import lines_of, phrases_of, setting, text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "its default"), (0.5, "0.5"), ((), "none"), ((24, 32), "24x32"), (("dark", "bright"), "dark, bright")],
)
def test_a_value_is_said_as_the_plan_and_errors_say_it(value, text):
    assert text_of(value) == text


@dataclasses.dataclass
class Table:
    own: str = setting("Data", plan=None)
    other: str = setting("Data", plan="line")
    part: str = setting("Data", plan="line of several", phrase="part={}")
    silent: str = setting("Data", plan="")
    absent: str = setting("Data")


def test_a_setting_with_a_value_gets_the_line_that_its_field_names():
    table = Table(own="a", other="b", part="c", silent="d")
    assert lines_of(table) == {"own": "a", "line": "b", "line of several": "c"}
    assert phrases_of(table, "line of several") == ["part=c"]
