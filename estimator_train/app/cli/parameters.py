"""The values of flags: a kind of value, of `runs.values`, as click takes it, with what a shell completes."""

from typing import Any

import click
from click.shell_completion import CompletionItem

from estimator_train.app.errors import SettingError
from estimator_train.app.runs.values import Kind


class Value(click.ParamType):
    """A value of a kind. An invalid one is reported in one line."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.name = kind.metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self._kind.metavar  # in the same letters

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            if isinstance(value, str):
                value = self._kind.parsed(value)
            return self._kind.checked(value, (param and param.name) or "")
        except SettingError:
            raise
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        if self._kind.completes:
            return [CompletionItem(incomplete, type=self._kind.completes)]
        return [CompletionItem(value) for value in self._kind.offered(incomplete)]
