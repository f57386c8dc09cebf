"""The error that a run raises: one line, in which settings have their names in Python, or are flags of the command."""

import contextlib
import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from estimator_train._engine.remedies import RemediedError, Setting

# Settings of the library that a run has under the same names; it must not propose others.
_OF_RUNS = (
    *("accumulate_steps", "all_reduce", "batch_size", "gpus", "mixed_precision"),
    *("monitor", "recompute", "replicas"),
)


class SettingError(ValueError):
    """A setting, a file or a run that cannot be used, in one line that names it and the mend.

    `text` names settings in braces, with a value or without, and `values` stand for {0}, {1} and so on:

    >>> error = SettingError("{keep_best} needs evaluations during training; give {evaluate_every=STEPS}, too")
    >>> str(error)
    'keep_best needs evaluations during training; give evaluate_every=STEPS, too'
    >>> error.spelled(as_flag)
    '--keep-best needs evaluations during training; give --evaluate-every STEPS, too'

    Attributes:
      exit_code: that of a command which ends with it: 2 if files or settings are at fault, else 1.
      not_to_try: flags that the error, as a `RemediedError`, must not propose.
    """

    def __init__(self, text: str, *values: Any, exit_code: int = 2, not_to_try: Collection[str] = ()) -> None:
        self._text, self._values = text, values
        self.exit_code, self.not_to_try = exit_code, not_to_try
        super().__init__(self.spelled(in_python))

    def spelled(self, spell: Callable[[str, Any], str]) -> str:
        """Returns the line with settings as `spell(name, value)` spells them; the value is None or a text."""
        return _Spelling(spell, self.not_to_try).vformat(self._text, self._values, {})


def in_python(name: str, value: Any = None) -> str:
    """Returns a setting as an argument of Python: its name, or name=value."""
    if value is None:
        return name
    return f"{name}={value}"


def as_flag(name: str, value: Any = None) -> str:
    """Returns a setting as the command line has it, such as --data-dir for data_dir, or --task regression."""
    flag = f"--{name.replace('_', '-')}"
    if value is None:
        return flag
    return f"{flag} {value}"


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns a ValueError or OSError, which the user's input causes, into a `SettingError` of the same words."""
    try:
        yield
    except SettingError:
        raise
    except (ValueError, OSError) as error:
        raise SettingError("{0}", error) from error


class _Spelling(string.Formatter):
    def __init__(self, spell: Callable[[str, Any], str], not_to_try: Collection[str]) -> None:
        self._spell, self._not_to_try = spell, not_to_try

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, None]:
        if field_name.isdecimal():
            return args[int(field_name)], None
        name, has_value, value = field_name.partition("=")
        return self._spell(name, value if has_value else None), None

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, SettingError):
            return value.spelled(self._spell)
        if isinstance(value, RemediedError):
            return value.spelled(self._of_library)
        return format(value if isinstance(value, (int, float)) else str(value), format_spec)

    def _of_library(self, setting: Setting) -> str:
        """Spells a setting of the library, which a run may have under the same name."""
        if setting.name == "cpu":
            return "CUDA_VISIBLE_DEVICES=-1"
        if setting.name not in _OF_RUNS or as_flag(setting.name) in self._not_to_try:
            return ""
        return self._spell(setting.name, setting.value)
