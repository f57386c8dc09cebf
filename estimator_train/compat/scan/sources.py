"""Reads Python files and notebooks that somebody else wrote: parses them, and runs nothing."""

import ast
import importlib.util
import json
import os
import re
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MAX_CODE = 1 << 20  # bytes; parsing takes 300 times as much memory
_MAX_NOTEBOOK = 32 << 20  # with its outputs, such as images
_TOO_DEEP = "code is nested too deeply"
# Lines of IPython: `!pip install x`, `%matplotlib inline`, `files = !ls`, `tf.Session?`.
_OF_IPYTHON = re.compile(r"^([ \t]*)(?:[\w, ]+=[ \t]*)?[!%?](?:.*\\\n)*.*$|^([ \t]*)[\w.]+\?+[ \t]*$", re.MULTILINE)


class Unreadable(Exception):
    """Says in one line why a file was not read; `is_python_2` if it looks like a program for another Python."""

    def __init__(self, why: str, is_python_2: bool = False) -> None:
        super().__init__(why)
        self.is_python_2 = is_python_2


class Part(NamedTuple):
    """A parsed file, or the cell of a notebook with this number, from 1; an `unreadable` cell is empty."""

    tree: ast.Module
    cell: int | None = None
    unreadable: Unreadable | None = None


def files_in(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the Python files and notebooks in a folder, sorted, and the symbolic links that lead out of it.

    Hidden folders and virtual environments are left out. Links inside the folder are, too, because what they lead to is
    yielded itself.
    """
    top = os.path.realpath(folder)
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        folders[:] = sorted(name for name in folders if name not in links and _belongs(parent, name))
        for name in sorted([*links, *(name for name in files if name.endswith((".py", ".ipynb")))]):
            path = Path(parent, name)
            target = os.path.realpath(path)
            is_inside = os.path.commonpath([top, target]) == top and os.path.exists(target)
            if not (path.is_symlink() and is_inside):
                yield path


def parts_of(path: Path) -> list[Part]:
    """Returns the parsed file, or the parsed cells of a notebook, without the code of those that cannot be parsed.

    Raises Unreadable, which says why the file cannot be read.
    """
    is_notebook = path.suffix == ".ipynb"
    content = _content(path, _MAX_NOTEBOOK if is_notebook else _MAX_CODE)
    if not is_notebook:
        return [Part(_parsed(_decoded(content), ""))]
    cells = _cells(content)
    if sum(map(len, cells.values())) > _MAX_CODE:
        raise Unreadable(f"its cells have more than {_MAX_CODE >> 20} MiB of code")
    return [_parsed_cell(code, number) for number, code in cells.items()]


def _belongs(parent: str, name: str) -> bool:
    return not name.startswith(".") and not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))


def _content(path: Path, limit: int) -> bytes:
    if path.is_symlink():
        raise Unreadable("a symbolic link that leads out of the folder, or to nothing")
    try:
        # Not blocking, because opening a named pipe would wait for its other end.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Unreadable("not a regular file")
            content = file.read(limit + 1)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    if len(content) > limit:
        raise Unreadable(f"larger than {limit >> 20} MiB")
    return content


def _decoded(content: bytes) -> str:
    try:
        return importlib.util.decode_source(content)
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"not in its encoding, {error.encoding}: byte {error.start} is {content[error.start]:#04x}"
        ) from error
    except SyntaxError as error:
        raise Unreadable(str(error)) from error  # an unknown encoding


def _cells(content: bytes) -> dict[int, str]:
    """Returns the code of the cells that are Python code, by their number among all cells."""
    try:
        notebook = json.loads(content)
        sheets = notebook.get("worksheets", [notebook])  # of notebooks before version 4
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
        code = {n: "".join(_source(cell)) for n, cell in enumerate(cells, 1) if cell["cell_type"] == "code"}
    except RecursionError as error:
        raise Unreadable("a notebook that is nested too deeply") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unreadable("a damaged notebook") from error
    return {number: text for number, text in code.items() if not re.match(r"\s*%%(?!time|capture|prun)", text)}


def _source(cell):
    return cell["source"] if "source" in cell else cell["input"]


def _parsed_cell(code: str, number: int) -> Part:
    for python in (code, _OF_IPYTHON.sub(_passing, code)):
        try:
            return Part(_parsed(python, f"cell {number}, "), number)
        except Unreadable as error:
            unreadable = error
    return Part(ast.Module([], []), number, unreadable)


def _passing(line: re.Match[str]) -> str:
    indent = line[1] if line[1] is not None else line[2]
    return f"{indent}pass" + "\n" * line[0].count("\n")


def _parsed(code: str, place: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of invalid escape sequences
            return ast.parse(code)
    except SyntaxError as error:
        if error.lineno is None:  # null bytes
            raise Unreadable(f"{place}{error.msg}") from error
        raise Unreadable(f"{place}line {error.lineno}: {error.msg}", is_python_2=True) from error
    except (RecursionError, MemoryError) as error:
        raise Unreadable(f"{place}{_TOO_DEEP}") from error
    except ValueError as error:  # null bytes, before Python 3.11.4
        raise Unreadable(f"{place}{error}") from error
