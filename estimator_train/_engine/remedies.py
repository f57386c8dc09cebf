"""Errors that explain themselves in one line, and the settings in it, which a program with flags spells as flags."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """Something a user can set. `python` spells it, with {} for the value; `words` propose it as a remedy."""

    name: str
    python: str
    value: Any = None
    words: str = "{}"

    def __str__(self) -> str:
        return self.python.format(self.value)


class UserError(Exception):
    """A file, an argument or a model of the user is at fault. The message is one line that names it and the remedy."""


class UnsuitableError(UserError, ValueError):
    """A model, or a batch, cannot do what a setting asks of it."""


class InterruptedRunError(RuntimeError):
    """Something outside of this process has ended the run, which can be started again."""


class RemediedError(UserError):
    """A UserError with the setting at fault, if one is, the `fault`, which follows it, and what to try instead."""

    given: Setting | None = None
    fault: str
    remedies: Sequence[Setting]
    form = "{}; {}"

    def spelled(self, spell: Callable[[Setting], str] = str) -> str:
        """Returns the message with settings as `spell` spells them, without remedies that it spells as ""."""
        fault = self.fault
        if self.given:
            fault = f"{spell(self.given)}{fault}"
        ways = [(remedy.words, spell(remedy)) for remedy in self.remedies]
        to_try = "; ".join(words.format(spelled) for words, spelled in ways if spelled)
        return self.form.format(fault, to_try) if to_try else fault


class ArgumentError(RemediedError, ValueError):
    """The value of an argument does not fit."""

    def __init__(self, given: Setting, fault: str, *remedies: Setting) -> None:
        self.given, self.fault, self.remedies = given, fault, remedies
        super().__init__(self.spelled())
