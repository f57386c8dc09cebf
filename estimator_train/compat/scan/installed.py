"""Names of installed modules, read from their files: nothing is imported."""

import ast
import functools
import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from estimator_train.compat.scan.private_tensorflow import WITHOUT_NAMES, keras_module


class Target(NamedTuple):
    """The module that a name refers to, or the name in that module, such as "compat.v1"."""

    module: str
    name: str = ""


class Names(NamedTuple):
    """The names of a module's file.

    `targets` has None for a name that the file defines itself. `stars` are the modules that it imports * from.
    `deleted` are the names that it removes. `public` is __all__, or None. If a module makes names when it runs, as an
    extension does, they are not `known`.
    """

    targets: dict[str, Target | None]
    stars: list[str]
    deleted: set[str]
    public: list[str] | None
    known: bool


@functools.cache
def file_of(module: str) -> Path | None:
    """Returns a module's file, or its directory if it is a package without a file; None if it is not installed.

    >>> file_of("tensorflow.python.ops").name
    '__init__.py'
    """
    top, *below = module.split(".")
    spec = importlib.util.find_spec(top)  # of a name without a dot, this imports nothing
    if spec is None:
        return None
    if not spec.submodule_search_locations:
        return Path(spec.origin) if spec.origin and not below else None
    path = Path(spec.submodule_search_locations[0], *below)
    for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
        if file.is_file():
            return file
    for file in path.parent.glob(f"{path.name}.*so"):  # before a folder of its type hints
        return file
    return path if path.is_dir() else None


@functools.cache
def names_of(module: str) -> Names:
    """Returns the names of an installed module; see `Names`."""
    file = file_of(module)
    names = Names({}, [], set(), None, known=file is not None)
    if file is None or file.is_dir() or module == WITHOUT_NAMES:
        return names
    # Protocol buffers and extensions create their names when they are imported.
    if file.suffix != ".py" or file.stem.endswith("_pb2"):
        return names._replace(known=False)
    package = module
    if file.stem != "__init__":
        package = module.rpartition(".")[0]
    for statement in _statements(ast.parse(file.read_bytes()).body):
        match statement:
            case ast.ImportFrom(names=[ast.alias("*")]):
                names.stars.append(_source(statement, package))
            case ast.Delete(targets):
                names.deleted.update(ast.unparse(target) for target in targets)
            case ast.Assign([ast.Name("__all__")], ast.List(elements) | ast.Tuple(elements)):
                public = [str(each.value) for each in elements if isinstance(each, ast.Constant)]
                names = names._replace(public=public)
            case ast.Assign([ast.Subscript(ast.Call(ast.Name("globals")))]) | ast.Expr(
                ast.Call(ast.Attribute(ast.Call(ast.Name("globals")), "update"))
            ):
                names = names._replace(known=False)
            case _:
                names.targets.update(_bound(statement, package, names.targets))
    return names._replace(known=names.known and "__getattr__" not in names.targets)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields the statements that run when a module is imported, those of branches included."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, part, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _statements(handler.body)


def _bound(
    statement: ast.stmt, package: str, before: Mapping[str, Target | None]
) -> Iterator[tuple[str, Target | None]]:
    """Yields the names that a statement binds, and what to; `before` are the names of the statements before it."""
    match statement:
        case ast.Import(imported):
            for each in imported:
                module = each.name if each.asname else each.name.partition(".")[0]
                yield each.asname or module, Target(module)
        case ast.ImportFrom(names=imported):
            for each in imported:
                yield each.asname or each.name, Target(_source(statement, package), each.name)
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, None
        case ast.Assign(targets, value):
            for target in targets:
                for name in _assigned(target):
                    yield name, _value(value, before)
        case ast.AnnAssign(ast.Name(name)):
            yield name, None
        # As TensorFlow sets names of its own modules.
        case ast.Expr(ast.Call(ast.Name("setattr"), [ast.Name(), ast.Constant(str(name)), value])):
            yield name, _value(value, before)


def _assigned(target: ast.expr) -> Iterator[str]:
    """Yields the names that an assignment binds: "nn.rnn_cell" for `_current_module.nn.rnn_cell = ...`."""
    match target:
        case ast.Name(name):
            yield name
        case ast.Tuple(elements) | ast.List(elements):
            for element in elements:
                yield from _assigned(element)
        case ast.Attribute():
            owner, _, name = ast.unparse(target).partition(".")
            if owner == "_current_module":
                yield name


def _value(value: ast.expr, before: Mapping[str, Target | None]) -> Target | None:
    match value:
        case ast.Name() | ast.Attribute():
            first, _, below = ast.unparse(value).partition(".")
            target = before.get(first)
            return target and Target(target.module, ".".join(filter(None, [target.name, below])))
        case ast.Call(ast.Name("_KerasLazyLoader" | "KerasLazyLoader"), keywords=keywords):
            given = {each.arg: str(each.value.value) for each in keywords if isinstance(each.value, ast.Constant)}
            return Target(keras_module(given.get("mode", "v2"), given.get("submodule", "")))
        case ast.Call(ast.Attribute(attr="LazyLoader") | ast.Name("LazyLoader"), [_, _, ast.Constant(str(module))]):
            return Target(module)
    return None


def _source(statement: ast.ImportFrom, package: str) -> str:
    """Returns the absolute path of the module that a statement imports from."""
    if not statement.level:
        return statement.module or ""
    parents = package.split(".")
    return ".".join(filter(None, [*parents[: len(parents) - statement.level + 1], statement.module]))


def paths_of(module: str) -> list[str]:
    """Returns the packages whose modules TensorFlow adds to those of its module: its file names one in each."""
    file = file_of(module)
    if file is None or file.suffix != ".py":
        return []
    found = re.findall(r'get_parent_dir_for_name\(\s*"(tf_keras[\w.]+)"', file.read_text())
    return [name.rpartition(".")[0] for name in found]
