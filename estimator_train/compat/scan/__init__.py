"""Says of the names of TensorFlow in somebody's code what `estimator_train run` makes of them, and runs nothing."""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, TypeVar

from estimator_train.compat import doctor
from estimator_train.compat.drop_in import names as tables
from estimator_train.compat.scan.lookup import Lookup, Reference
from estimator_train.compat.scan.sources import Part, Unreadable, files_in, parts_of
from estimator_train.compat.scan.uses import Use, uses_in
from estimator_train.compat.tf1.contrib_modules import package_to_install
from estimator_train.compat.tf1.instead import INSTEAD

WORKS, WITH_TF1, CHANGE, ABSENT = "works", "tf1", "change", "absent"  # of names: tf1 is for those that need --tf1
NOT_PYTHON_3, NOT_READ = "not_python_3", "not_read"  # of files

# Python 3.10 recurses without a limit to make the tree of a chain such as 1+1+1+...; the longest needs half of this.
_STACK = 512 << 20
_OPTIMIZER = re.compile(r"tensorflow\.(?:compat\.v2\.)?keras\.optimizers\.\w+")

_T = TypeVar("_T")


class Place(NamedTuple):
    """A line of a file, or of a notebook's cell."""

    line: int
    cell: int | None = None


class Name(NamedTuple):
    """A name in a file, its verdict, what to do if it does not work, and where it stands."""

    name: str
    verdict: str
    advice: str
    places: list[Place]


class File(NamedTuple):
    """A file's names, and why it, or cells of a notebook, were not read.

    Then `problem` is NOT_PYTHON_3 or NOT_READ, and `why` says more.
    """

    path: str
    names: list[Name]
    problem: str | None = None
    why: str = ""


def scan(path: str | os.PathLike[str]) -> list[File]:
    """Returns what `estimator_train run` makes of the names of TensorFlow in a file, or in the files of a folder.

    Neither the files nor TensorFlow are imported. Paths are relative to the folder; names are spelled `tf.X`.

        for file in scan("repository"):
            for name in file.names:
                print(file.path, name.places[0].line, name.name, name.verdict, name.advice)
    """
    judge = _Judge()
    if os.path.isfile(path):  # a link, too, because it was given
        return _with_large_stack(lambda: [_read(Path(os.path.realpath(path)), os.path.basename(path), judge)])
    return _with_large_stack(lambda: [_read(file, os.path.relpath(file, path), judge) for file in files_in(path)])


def _read(path: Path, shown: str, judge: _Judge) -> File:
    try:
        parts = parts_of(path)
    except Unreadable as error:
        return _with_problems(File(shown, []), [error])
    unread = [part.unreadable for part in parts if part.unreadable]
    return _with_problems(File(shown, judge.names_in(parts)), unread)


def _with_problems(file: File, problems: list[Unreadable]) -> File:
    if not problems:
        return file
    problem = NOT_PYTHON_3 if any(error.is_python_2 for error in problems) else NOT_READ
    return file._replace(problem=problem, why="; ".join(map(str, problems)))


class _Judge:
    def __init__(self) -> None:
        self._as_it_is, self._with_tf1 = Lookup(tf1=False), Lookup(tf1=True)

    def names_in(self, parts: list[Part]) -> list[Name]:
        """Returns the names in the parts of one file, which runs as it is or, if it has to, under --tf1."""
        uses = uses_in(part.tree for part in parts)
        needs_tf1 = any(not _found(self._as_it_is, use)[0] and _found(self._with_tf1, use)[0] for use in uses)
        places: dict[tuple[str, str, str], set[tuple[int, int]]] = defaultdict(set)
        for use in uses:
            places[self._verdict(use, needs_tf1)].add((parts[use.part].cell or 0, use.line))
        return [
            Name(*judged, [Place(line, cell or None) for cell, line in sorted(found)])
            for judged, found in sorted(places.items())
        ]

    def _verdict(self, use: Use, needs_tf1: bool) -> tuple[str, str, str]:
        """Returns the part of the name that decides, the verdict and the advice."""
        works, reached = _found(self._as_it_is, use)
        works_with_tf1, reached_with_tf1 = _found(self._with_tf1, use)
        has_old_arguments = bool(_OPTIMIZER.fullmatch(reached) and use.keywords & {"lr", "decay"})
        if needs_tf1 and works_with_tf1:
            verdict = WITH_TF1
            if works and not has_old_arguments:
                verdict = WORKS
            return _spelled(reached_with_tf1), verdict, ""
        if needs_tf1 and works:
            advice = "`estimator_train run --tf1`, which other names in this file need, lacks it"
            return _spelled(reached_with_tf1), ABSENT, advice
        if works and has_old_arguments:
            return _spelled(reached), CHANGE, doctor.OLD_ARGUMENTS
        if works:
            return _spelled(reached), WORKS, ""
        if reached_with_tf1 == doctor.ADDONS:
            return reached_with_tf1, CHANGE, doctor.INSTEAD_OF_ADDONS
        if package := package_to_install(reached_with_tf1):
            advice = f"pip install {package}, then run with `estimator_train run --tf1`"
            return _spelled(reached_with_tf1), CHANGE, advice
        return _spelled(reached_with_tf1), ABSENT, self._advice(reached_with_tf1)

    def _advice(self, name: str) -> str:
        """Returns what to use instead of an absent name, "" if nothing is known."""
        parent, _, last = name.rpartition(".")
        if parent in tables.MODULES and last not in tables.INSTEAD:
            return ""
        if parent in tables.MODULES:
            return f"use {tables.INSTEAD[last]}"
        below_contrib = re.sub(r"\.python\b.*(?=\.)", "", name.removeprefix("tensorflow.contrib."))
        if below_contrib in INSTEAD:
            return f"use {INSTEAD[below_contrib]}"
        outside = name.removeprefix("tensorflow.compat.v1.")
        if outside != name and self._with_tf1.find(Reference("tensorflow", attributes=tuple(outside.split("."))))[0]:
            return f"use tf.{outside} of `import tensorflow as tf`, with `estimator_train run --tf1`"
        return ""


def _found(lookup: Lookup, use: Use) -> tuple[bool, str]:
    """Returns whether a use works, and the part of its name that decides."""
    results = [lookup.find(reference) for reference in use.references if reference]
    results.sort(reverse=True)
    found, reached = results[0]
    return found or use.is_optional or None in use.references, reached


def _spelled(name: str) -> str:
    """Returns a name as scripts spell it: modules that are only imported have no tf in front."""
    return re.sub(r"^tensorflow\.(?!(?:python|core|examples|tools)\b)", "tf.", name)


def _with_large_stack(function: Callable[[], _T]) -> _T:
    """Returns function(), called in a thread with a stack for deeply nested code."""
    outcome: Future[_T] = Future()

    def call() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    before = threading.stack_size(_STACK)
    try:
        threading.Thread(target=call, daemon=True).start()  # a daemon, so that Ctrl-C ends it
    finally:
        threading.stack_size(before)
    return outcome.result()
