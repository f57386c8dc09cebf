"""Comma-separated values in which no name is a formula to a spreadsheet."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # https://owasp.org/www-community/attacks/CSV_Injection


def text_of(rows: Iterable[Sequence[Any]]) -> str:
    """Returns rows as lines. A text that a spreadsheet would take for a formula gets an apostrophe in front.

    >>> text_of([["file", "value"], ["=1+1.png", -0.5]])
    "file,value\\n'=1+1.png,-0.5\\n"
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_marked, row) for row in rows)
    return text.getvalue()


def rows_of(text: str) -> list[list[str]]:
    """Returns the rows of such lines without these apostrophes; raises csv.Error if they are malformed.

    >>> rows_of("file,value\\n'=1+1.png,-0.5\\n")
    [['file', 'value'], ['=1+1.png', '-0.5']]
    """
    return [list(map(_unmarked, row)) for row in csv.reader(io.StringIO(text, newline=""))]


def _marked(cell):
    if isinstance(cell, str) and _FORMULA.match(cell):
        return f"'{cell}"
    return cell


def _unmarked(cell):
    if _FORMULA.match(cell):
        return cell.removeprefix("'")
    return cell
