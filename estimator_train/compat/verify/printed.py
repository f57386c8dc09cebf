"""Reads what a script prints: the text and the numbers of each line, without what no two runs print alike."""

import ast
import pprint
import re
import sys
from collections import Counter
from collections.abc import Iterator

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|\b(?:nan|inf|infinity)\b", re.IGNORECASE)
_TEMPORARY = re.compile(r"(?<!\w)\./tmp/[^/\s'\",;:)\]>]+")  # of a run, whose temporary directory this is
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_NUMPY_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")  # as NumPy 2 shows what NumPy 1 shows as the number alone

_OF_DAY = r"(?<![\w.:])(?:\d+ days?, )?\d{1,2}:[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?(?![\w:]|\.\d)"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DATE = re.compile(
    rf"\b(?:{_DAY})?(?:{_MONTH} +\d\d?|\d\d?[ -]{_MONTH})\b(?:,? +{_OF_DAY})?(?:,?[ -]+(?:[A-Z]{{3,4}} )?\d{{4}}\b)?"
    r"|(?<!\d)\d{4}([-/.])\d\d?\1\d\d?(?:[T _-]\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?(?!\d)"
    r"|(?<![\d.])20[2-9]\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[-_T]?\d{6})?(?![\d.])"
    r"|(?<![\d.])1[6-9]\d{8}(?:\d{3}|\.\d+)?(?![\d.])"  # seconds since 1970, in the years from 2020 to 2033
    rf"|{_OF_DAY}"
)
# A number with two dots is none; a shorter version is known by the word before it.
_VERSION = re.compile(
    r"(?<![\w.])v?\d+(?:\.\d+){2,}(?:[-.+]?(?:a|b|rc|dev|post)[\w.]*)?(?:-\d+-g[0-9a-f]+)?(?!\w)"
    r"|(?:(?<=tensorflow)|(?<=version))[\s:=v]{1,3}[12]\.\d\d?(?![\d.])",
    re.IGNORECASE,
)
_AMOUNT = r"(?<![\w.])[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_UNIT = r"(?:[nuµm]?s|secs?|seconds|minutes|mins|hours|hrs)\b(?:/\w+)?"
_RATE = r"\w*(?:/s(?:ec(?:ond)?s?)?|(?: per |_per_)(?:sec|second|minute|hour))\b"
_LABEL = (
    r"(?<![a-z])(?:(?:run|wall)?time(?:_per_\w+)?|took|taken|elapsed|duration|latency|speed|throughput|fps|eta"
    r"|seconds|secs?|minutes|hours|(?:\w/|per[ _]|_)s(?:ec(?:ond)?)?)(?![a-z_/])"
)
_BETWEEN = (
    r"(?:(?:per|for|of|to|in|is|was|the|a|an|each|one|spent|taken|used|about|step|epoch|batch|example|train(?:ing)?"
    r"|eval(?:uation)?|prediction|inference|total|mean|average)\b[\s:=]*)*"
)
_SPEED = re.compile(
    rf"{_AMOUNT} ?(?:{_UNIT}|{_RATE})"
    rf"|(?P<label>{_LABEL}[\"']?[\s:=~(]*{_BETWEEN})(?:\[[^]]*\]|{_AMOUNT}(?:[\s:]+{_AMOUNT})*)",
    re.IGNORECASE,
)

# These are left out of lines, in this order, because the time that follows a date belongs to it.
_LEFT_OUT = {"printed dates and times": _DATE, "printed versions": _VERSION, "printed durations and speeds": _SPEED}


def read(lines: list[str], directory: str, left_out: Counter[str]) -> Iterator[tuple[str, list[float]]]:
    """Yields the text of each line, with "#" in place of its numbers, and these; counts in `left_out` what is neither.

    Dates, versions, durations, speeds, addresses in memory and the names of temporary files become "...", and the
    run's `directory` ".".

    >>> [*read(["step 3: loss 0.5 (0.21 sec)"], "runs/old", Counter())]
    [('step #: loss # (...)', [3.0, 0.5])]
    """
    for line in lines:
        line = _TEMPORARY.sub("./tmp/...", _ADDRESS.sub("...", line.replace(directory, ".")))
        line = _in_order(_NUMPY_SCALAR.sub(r"\1", line)).strip()
        for what, pattern in _LEFT_OUT.items():
            line, count = pattern.subn(_without_amount, line)
            if count:
                left_out[what] += count
        if line:
            yield _NUMBER.sub("#", line), list(map(float, _NUMBER.findall(line)))


def _without_amount(found: re.Match[str]) -> str:
    return f"{found.groupdict().get('label') or ''}..."


def _in_order(line: str) -> str:
    """Returns a line in which a dict, as Python or JSON, has its keys in order, in which the two sides may differ."""
    begin, end = line.find("{"), line.rfind("}") + 1
    try:
        value = ast.literal_eval(line[begin:end])
    except (SyntaxError, ValueError):
        return line
    return f"{line[:begin]}{pprint.pformat(value, width=sys.maxsize)}{line[end:]}"
