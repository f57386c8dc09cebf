"""The directories of exports, named by Unix seconds."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping

import tensorflow as tf

from estimator_train._engine.host.files import names_in, remove, this_process

_in_progress: set[str] = set()  # the final paths of exports that threads of this process are writing
_choosing = threading.Lock()


@contextlib.contextmanager
def new_export_directory(
    base: str | os.PathLike[str], assets_extra: Mapping[str, str | os.PathLike[str]] | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yields (a temporary directory to write a SavedModel to, its final path as bytes), and renames it at the end."""
    base = os.fsdecode(base)
    with _choosing:
        unfinished = _in_progress.copy()  # before the others are listed, which it may join meanwhile
        older = exports_in(base)
        seconds = int(time.time())
        if older:  # the highest number is always the newest export, also if the clock was set back
            seconds = max(seconds, int(os.path.basename(older[-1])) + 1)
        while (final := os.path.join(base, str(seconds))) in unfinished:
            seconds += 1
        _in_progress.add(final)
    temporary = _temporary(final)
    try:
        yield temporary, tf.compat.as_bytes(final)
        for name, source in (assets_extra or {}).items():
            target = os.path.join(temporary, "assets.extra", name)
            tf.io.gfile.makedirs(os.path.dirname(target))
            tf.io.gfile.copy(source, target)
        tf.io.gfile.rename(temporary, final)
    finally:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)
        _in_progress.discard(final)


def remove_export(path: str) -> None:
    """Removes an export. It is renamed first, so a server never loads one that is half deleted."""
    temporary = _temporary(path)
    tf.io.gfile.rename(path, temporary)
    remove(temporary)


def exports_in(base: str | os.PathLike[str]) -> list[str]:
    """Returns the paths of the exports in the directory `base`, which are named by Unix seconds, oldest first."""
    return [os.path.join(base, name) for name in sorted(names_in(base)) if len(name) == 10 and name.isdigit()]


def _temporary(path: str) -> str:
    """Returns the directory of an unfinished export. Servers ignore its name, which identifies the writing process."""
    base, seconds = os.path.split(path)
    return os.path.join(base, f"temp-{seconds}-{this_process()}")
