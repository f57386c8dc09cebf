"""Lines about settings, for errors and advice: settings have their names in Python, or are flags of the command."""

import contextlib
import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from estimator_train._engine.remedies import RemediedError, Setting

Spell: TypeAlias = Callable[[str, Any], str]  # spells a setting, by its name and a value or None

# Settings of the library that a run has under the same names; it must not propose others.
_OF_RUNS = (
    *("accumulate_steps", "all_reduce", "batch_size", "gpus", "mixed_precision"),
    *("monitor", "recompute", "replicas"),
)


class SpelledError(Exception):
    """Base class of errors whose line names settings; `SettingError` is the one to raise, unless it is an OSError.

    `text` names settings in braces, with a value or without, and `values` stand for {0}, {1} and so on:

    >>> error = SettingError("{keep_best} needs evaluations during training; give {evaluate_every=STEPS}, too")
    >>> str(error)
    'keep_best needs evaluations during training; give evaluate_every=STEPS, too'
    >>> error.spelled(as_flag)
    '--keep-best needs evaluations during training; give --evaluate-every STEPS, too'

    Attributes:
      is_one_line: whether line breaks in it, such as those of another error, are spaces where it is printed.
      not_to_try: settings that the error, as a `RemediedError`, must not propose.
    """

    is_one_line = True
    not_to_try: Collection[str] = ()

    def __init__(self, text: str, *values: Any) -> None:
        self._text, self._values = text, values
        self.is_one_line = self.is_one_line and all(getattr(value, "is_one_line", True) for value in values)
        super().__init__(self.spelled(in_python))

    def spelled(self, spell: Spell) -> str:
        """Returns the line with settings as `spell(name, value)` spells them; the value is None or a text."""
        return _Spelling(spell, self.not_to_try).vformat(self._text, self._values, {})


class SettingError(SpelledError, ValueError):
    """A setting, a file or a run that cannot be used, in one line that names it and the mend; see `SpelledError`.

    Attributes:
      exit_code: that of a command which ends with it: 2 if files or settings are at fault, else 1.
    """

    def __init__(self, text: str, *values: Any, exit_code: int = 2, not_to_try: Collection[str] = ()) -> None:
        self.exit_code, self.not_to_try = exit_code, not_to_try
        super().__init__(text, *values)


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


_spell_in_lines: Spell = in_python


@contextlib.contextmanager
def spelling(spell: Spell) -> Iterator[None]:
    """Makes `spelled` spell settings like this in the block; the command does so for all that it runs."""
    global _spell_in_lines
    before, _spell_in_lines = _spell_in_lines, spell
    try:
        yield
    finally:
        _spell_in_lines = before


def spelled(text: str, *values: Any) -> str:
    """Returns a line of advice that is printed: `text` as in `SpelledError`, for Python or in the command for it.

    >>> spelled("{gpus=2} uses all")
    'gpus=2 uses all'
    >>> with spelling(as_flag):
    ...     spelled("{gpus=2} uses all")
    '--gpus 2 uses all'
    """
    return _Spelling(_spell_in_lines).vformat(text, values, {})


class _Spelling(string.Formatter):
    def __init__(self, spell: Spell, not_to_try: Collection[str] = ()) -> None:
        self._spell, self._not_to_try = spell, not_to_try

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, None]:
        if field_name.isdecimal():
            return args[int(field_name)], None
        name, has_value, value = field_name.partition("=")
        return self._spell(name, value if has_value else None), None

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, SpelledError):
            return value.spelled(self._spell)
        if isinstance(value, RemediedError):
            return value.spelled(self._of_library)
        return format(value if isinstance(value, (int, float)) else str(value), format_spec)

    def _of_library(self, setting: Setting) -> str:
        """Spells a setting of the library, which a run may have under the same name."""
        if setting.name == "cpu":
            return "CUDA_VISIBLE_DEVICES=-1"
        if setting.name not in _OF_RUNS or setting.name in self._not_to_try:
            return ""
        return self._spell(setting.name, setting.value)
