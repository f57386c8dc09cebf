"""Finds where Python code uses names of TensorFlow, following the names that it gives them."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from estimator_train.compat.doctor import ADDONS
from estimator_train.compat.scan.lookup import Reference

_PACKAGES = ("tensorflow", "tensorflow_estimator", ADDONS)
_ABSENCE = {"AttributeError", "BaseException", "Exception", "ImportError", "ModuleNotFoundError"}


class Use(NamedTuple):
    """A use of a name of TensorFlow, in line `line` of the part number `part` of a program.

    `references` is what the name may mean: there are several after `try: import tensorflow.compat.v1 as tf` and
    `except ImportError: import tensorflow as tf`, and one may be None, which is something else. `keywords` are the
    arguments' names, if it is called. `is_optional` says that the code catches the error of an absent name.
    """

    references: tuple[Reference | None, ...]
    part: int
    line: int
    keywords: frozenset[str | None]
    is_optional: bool


def uses_in(parts: Iterable[ast.Module]) -> list[Use]:
    """Returns the uses in a program of one part, a file, or of several, the cells of a notebook.

    >>> tree = ast.parse("from tensorflow.contrib import slim\\nslim.conv2d")
    >>> [(use.references[0].name, use.line) for use in uses_in([tree])]
    [('tensorflow.contrib.slim', 1), ('tensorflow.contrib.slim.conv2d', 2)]
    """
    names = _Names({})
    reader = _Reader()
    for part, tree in enumerate(parts):
        reader.read(tree.body, names, _Place(part))
    reader.read_functions()
    return reader.uses


class _Place(NamedTuple):
    """The place of a statement: its part, and whether a branch or a `try` that catches an absent name surrounds it."""

    part: int
    in_branch: bool = False
    is_guarded: bool = False


class _Names:
    """The names of a scope that have, or may have, a meaning in TensorFlow."""

    def __init__(self, held: dict[str, tuple[Reference | None, ...]], of_functions: _Names | None = None) -> None:
        self.held = held
        self.of_functions = of_functions or self  # what functions inside see: not the names of a class around them

    def bind(self, name: str, meanings: tuple[Reference | None, ...], place: _Place) -> None:
        """Gives a name meanings, besides those that it has if that is done in a branch; none: it is something else."""
        if place.in_branch and (before := self.held.get(name, ())):
            meanings = (*before, *(meanings or [None]))
        if meanings:
            self.held[name] = meanings
        else:
            self.held.pop(name, None)

    def without(self, parameters: ast.arguments) -> _Names:
        hidden = {node.arg for node in ast.iter_child_nodes(parameters) if isinstance(node, ast.arg)}
        return _Names({name: meanings for name, meanings in self.held.items() if name not in hidden})


class _Reader:
    def __init__(self) -> None:
        self.uses: list[Use] = []
        self._functions: deque = deque()

    def read_functions(self) -> None:
        """Reads the bodies of functions, which see the names that the code around them has in the end."""
        while self._functions:
            function, names, place = self._functions.popleft()
            self.read(function.body, names.without(function.args), place)

    def read(self, body: Sequence[ast.stmt], names: _Names, place: _Place) -> None:
        for statement in body:
            self._statement(statement, names, place)

    def _statement(self, statement: ast.AST, names: _Names, place: _Place) -> None:
        match statement:
            case ast.Import():
                self._import(statement, names, place)
            case ast.ImportFrom():
                self._import_from(statement, names, place)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(statement, names, place)
            case ast.ClassDef():
                self._class(statement, names, place)
            case ast.Assign([ast.Name(name)], value):
                self._expressions([value], names, place)
                names.bind(name, _followed(value, names)[1], place)
            case ast.Try():
                self._try(statement, names, place)
            case ast.If():
                self._if(statement, names, place)
            case ast.With() | ast.AsyncWith():
                self._parts(statement, names, place, place)
            case _:
                self._parts(statement, names, place, place._replace(in_branch=True))

    def _function(self, statement, names, place):
        self._expressions([*statement.decorator_list, statement.args, statement.returns], names, place)
        names.bind(statement.name, (), place)
        self._functions.append((statement, names.of_functions, place._replace(in_branch=False)))

    def _class(self, statement, names, place):
        self._expressions([*statement.decorator_list, *statement.bases, *statement.keywords], names, place)
        self.read(statement.body, _Names(dict(names.held), names.of_functions), place)
        names.bind(statement.name, (), place)

    def _try(self, statement, names, place):
        branch = place._replace(in_branch=True)
        catches = any(map(_catches_absence, statement.handlers))
        self.read(statement.body, names, branch._replace(is_guarded=place.is_guarded or catches))
        for handler in statement.handlers:
            self._expressions([handler.type], names, branch)
            self.read(handler.body, names, branch)
        self.read([*statement.orelse, *statement.finalbody], names, branch)

    def _if(self, statement, names, place):
        branch, rest = place._replace(in_branch=True), [statement]
        while len(rest) == 1 and isinstance(rest[0], ast.If):  # a loop, because there may be hundreds of elif
            self._expressions([rest[0].test], names, place)
            self.read(rest[0].body, names, branch)
            rest = rest[0].orelse
        self.read(rest, names, branch)

    def _parts(self, statement, names, place, inner):
        """Reads the expressions of a statement, and in the place `inner` its statements, or items of `with`."""
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                self._expressions([child], names, place)
            else:
                self._statement(child, names, inner)

    def _import(self, statement, names, place):
        for each in statement.names:
            top = each.name.partition(".")[0]
            bound, meant = top, top
            if each.asname:
                bound, meant = each.asname, each.name
            if top in _PACKAGES:
                self._add((Reference(each.name),), statement, place)
                names.bind(bound, (Reference(meant),), place)
            else:
                names.bind(bound, (), place)

    def _import_from(self, statement, names, place):
        is_ours = not statement.level and statement.module.partition(".")[0] in _PACKAGES
        for each in statement.names:
            meanings = ()
            if is_ours:
                meanings = (Reference(statement.module, each.name.strip("*")),)
            self._add(meanings, statement, place)
            names.bind(each.asname or each.name, meanings, place)

    def _expressions(self, nodes: Iterable[ast.AST | None], names: _Names, place: _Place) -> None:
        if not names.held:
            return
        pending = [(node, names) for node in nodes if node]  # a stack: code may be nested deeper than Python's calls
        while pending:
            node, names = pending.pop()
            children: Iterable[ast.AST]
            if isinstance(node, (ast.Attribute, ast.Name)):
                children = self._chain(node, names, place)
            elif isinstance(node, ast.Call):
                rest = self._chain(node.func, names, place, frozenset(each.arg for each in node.keywords))
                children = [*node.args, *(each.value for each in node.keywords), *rest]
            elif isinstance(node, ast.Lambda):
                pending.append((node.body, names.without(node.args)))
                children = [node.args]
            elif isinstance(node, (ast.Constant, ast.expr_context)):
                continue
            elif isinstance(node, ast.comprehension):
                children = [node.iter, *node.ifs]
            else:
                children = ast.iter_child_nodes(node)
            pending.extend((child, names) for child in children)

    def _chain(self, node, names, place, keywords=frozenset()):
        """Adds the use that a chain of attributes is; returns what it starts with, unless that is a name."""
        first, meanings = _followed(node, names)
        if isinstance(first, ast.Name):
            if node is first and not isinstance(node.ctx, ast.Load):
                names.bind(node.id, (), place)
            elif node is not first or any(meaning and meaning.imported for meaning in meanings):
                self._add(meanings, node, place, keywords)
            return []
        return [first]

    def _add(self, references, node, place, keywords=frozenset()):
        if references:
            self.uses.append(Use(references, place.part, node.lineno, keywords, place.is_guarded))


def _followed(node: ast.expr, names: _Names) -> tuple[ast.expr, tuple[Reference | None, ...]]:
    """Returns what a chain of attributes starts with, and what the chain may mean."""
    attributes: list[str] = []
    first = node
    while isinstance(first, ast.Attribute):
        if isinstance(first.ctx, ast.Load):  # an attribute that is set need not be there
            attributes.append(first.attr)
        first = first.value
    if not isinstance(first, ast.Name):
        return first, ()
    attributes.reverse()
    meanings = names.held.get(first.id, ())
    return first, tuple(each and each._replace(attributes=(*each.attributes, *attributes)) for each in meanings)


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    kinds: Sequence[ast.expr | None] = [handler.type]
    if isinstance(handler.type, ast.Tuple):
        kinds = handler.type.elts
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _ABSENCE) for kind in kinds)
