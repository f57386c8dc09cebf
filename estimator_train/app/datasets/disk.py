"""Checks for disk space, and writes directories as a whole."""

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from estimator_train._engine.host.paths import StrPath
from estimator_train.app.errors import SpelledError


class NoRoomError(SpelledError, OSError):
    """A disk has not enough room."""


def require_room(directory: StrPath, num_bytes: int, what: str) -> None:
    """Raises NoRoomError unless the disk of `directory` has room for `num_bytes`; `what` says what needs it.

    >>> require_room(".", 1000, "unpacking the archive")
    """
    free = shutil.disk_usage(directory).free
    if free < num_bytes:
        text = "{0} needs {1} of disk space, but {2} has only {3} left; free some, or give another {data_dir}"
        raise NoRoomError(text, what, _gigabytes(num_bytes), directory, _gigabytes(free))


@contextlib.contextmanager
def full_disk_in_one_line(directory: StrPath) -> Iterator[None]:
    """Turns errors that mean a full disk or quota into an OSError that names the disk of `directory`."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        again = "free some space and run the command again: finished work is kept"
        raise OSError(f"the disk of {directory} is full; {again}") from error


@contextlib.contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yields a directory that is renamed to `path` at the end, unless another process was first; an error removes it.

    >>> with whole_directory(Path("drawn")) as directory:
    ...     (directory / "page.txt").touch()
    >>> os.listdir("drawn")
    ['page.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield unfinished
        unfinished.chmod(0o755)  # mkdtemp gives access only to the owner
        try:
            unfinished.rename(path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _gigabytes(num_bytes):
    return f"{num_bytes / 1e9:.2f} GB"
