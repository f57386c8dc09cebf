"""Errors of wrong arguments: rules that hold for all, and their texts; `golden_errors` says how to rewrite these."""

import difflib
from pathlib import Path

from tests.golden_errors import CALLS, error_of

GOLDEN = Path(__file__).parent / "data" / "errors" / "errors.txt"


def test_errors_of_wrong_arguments_are_those_in_the_file():
    now = [line for _, call in CALLS for line in (f">>> {call}", error_of(call))]
    changes = difflib.unified_diff(GOLDEN.read_text().splitlines(), now, GOLDEN.name, "now", lineterm="", n=1)
    assert not (diff := "\n".join(changes)), diff


def test_errors_of_wrong_arguments_name_them_in_one_line():
    for named, call in CALLS:
        error = error_of(call)
        assert "\n" not in error and not [word for word in named.split() if word not in error], f"{call}: {error}"
