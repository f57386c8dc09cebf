"""A table of an object's facts, as notebooks show it."""

import html
from collections.abc import Mapping
from typing import Any


def html_table(title: str, rows: Mapping[str, Any]) -> str:
    """Returns a table of names and values as HTML, for `_repr_html_`.

    >>> html_table("pets", {"classes": "cat & dog"})
    '<table><caption>pets</caption><tr><th>classes</th><td>cat &amp; dog</td></tr></table>'
    """
    cells = [f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows.items()]
    return f"<table><caption>{html.escape(title)}</caption>{''.join(cells)}</table>"
