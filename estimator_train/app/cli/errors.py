"""Turns expected errors into one line for the user."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns a ValueError or OSError, caused by the user's input, into one line and exit code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
