"""FILE:FUNCTION, a function of the user's, found in the syntax tree of its file: nothing is run."""

import ast
from pathlib import Path

import click


def check_function(reference, flag):
    """Checks that FILE:FUNCTION names a Python file and a name at its top level, without running it."""
    path, _, name = reference.rpartition(":")
    if not path or not name.isidentifier():
        raise click.ClickException(f"{flag} {reference}: give FILE:FUNCTION, such as my_data.py:train_input_fn")
    try:
        tree = ast.parse(Path(path).read_bytes(), path)  # Python finds the encoding that the file declares
    except OSError as error:
        raise click.ClickException(f"{flag} {reference}: cannot read {path}: {error.strerror}") from error
    except SyntaxError as error:
        raise click.ClickException(f"{flag} {reference}: {path} line {error.lineno}: {error.msg}") from error
    names = {name for node in tree.body for name in _names_made_by(node)}
    if name not in names and "*" not in names:  # from module import *
        raise click.ClickException(
            f"{flag} {reference}: {path} has no {name}; it has {', '.join(sorted(names)) or 'none'}"
        )


def _names_made_by(node):
    """Returns the names that a top-level statement may define, including those in its branches."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    parts = list(ast.walk(node))
    names = {part.asname or part.name for part in parts if isinstance(part, ast.alias)}
    names |= {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return names | {part.name for part in parts if isinstance(part, ast.FunctionDef)}
