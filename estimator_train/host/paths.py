"""Paths on this machine's disks and in remote folders, such as gs://bucket/run, with the methods of pathlib.

A remote path is read and written by `tf.io.gfile`: TensorFlow is imported when its first method is called, and for
local paths never.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is on a file system that only TensorFlow reads, such as gs://bucket/run."""
    return "://" in os.fspath(path)


def as_path(*parts: str | os.PathLike[str]) -> Path | RemotePath:
    """Returns the joined `parts` as a `Path`, or as a `RemotePath` if the first is remote."""
    return RemotePath(*parts) if is_remote(parts[0]) else Path(*parts)


def absolute(path: str | os.PathLike[str]) -> str:
    """Returns `path` as an absolute path; remote ones stay as they are."""
    return os.fspath(path) if is_remote(path) else os.path.abspath(path)


def local(path: str | os.PathLike[str]) -> Path:
    """Returns `path` as a `Path`; raises ValueError if it is remote."""
    if is_remote(path):
        raise ValueError(f"{os.fspath(path)} is remote; give a folder of this machine")
    return Path(path)


def scandir(folder: Path | RemotePath) -> Iterator[os.DirEntry[str]] | Iterator[RemotePath]:
    """Returns the entries of a folder, which have name, path, is_dir and is_file."""
    return folder.iterdir() if isinstance(folder, RemotePath) else os.scandir(folder)


def file_finder() -> Callable[[str], bool]:
    """Returns a function that says whether a file is there, which lists each remote folder once."""
    names_in = functools.cache(lambda folder: {path.name for path in RemotePath(folder).glob("*")})

    def is_there(path):
        folder, name = os.path.split(path)
        return name in names_in(folder) if is_remote(path) else os.path.isfile(path)

    return is_there


class RemotePath:
    """The part of pathlib's interface that this package uses, on a file system of `tf.io.gfile`.

    Methods raise OSError as those of pathlib do, and ValueError where TensorFlow has no such file system.
    """

    def __init__(self, *parts: str | os.PathLike[str]) -> None:
        self._path = os.path.join(*map(os.fspath, parts)).rstrip("/")

    def __fspath__(self) -> str:
        return self._path

    def __str__(self) -> str:
        return self._path

    def __repr__(self) -> str:
        return f"RemotePath({self._path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self._path == other.path

    def __hash__(self) -> int:
        return hash(self._path)

    def __lt__(self, other: RemotePath) -> bool:
        return self._path < other.path

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self._path, name)

    @property
    def name(self) -> str:
        return os.path.basename(self._path)

    @property
    def path(self) -> str:
        return self._path

    @property
    def parent(self) -> RemotePath:
        return RemotePath(os.path.dirname(self._path))

    def resolve(self) -> RemotePath:
        return self

    def exists(self) -> bool:
        with self._gfile() as gfile:
            return gfile.exists(self._path)

    def is_dir(self) -> bool:
        with self._gfile() as gfile:
            return gfile.isdir(self._path)

    def is_file(self) -> bool:
        return self.exists() and not self.is_dir()

    def iterdir(self) -> Iterator[RemotePath]:
        with self._gfile() as gfile:
            names = gfile.listdir(self._path)  # an object store puts a / behind the names of folders
        return (self / name.rstrip("/") for name in names if name.rstrip("/"))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yields what lies in this folder, not below, by names that match `pattern`; none where there is no folder."""
        return (path for path in (self.iterdir() if self.is_dir() else ()) if fnmatch.fnmatchcase(path.name, pattern))

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes the folder and those above it; an object store has none, and takes files all the same."""
        with self._gfile() as gfile:
            gfile.makedirs(self._path)

    @contextlib.contextmanager
    def open(self, mode: str) -> Iterator[IO[bytes]]:
        """Opens the file to read bytes; `files.write_whole` writes one."""
        with self._gfile() as gfile, gfile.GFile(self._path, mode) as file:
            yield file

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    @contextlib.contextmanager
    def _gfile(self):
        """Gives tf.io.gfile, whose errors become those of pathlib."""
        import tensorflow as tf  # not for local paths

        _check_scheme(self._path.partition("://")[0], tf.io.gfile.get_registered_schemes())
        try:
            yield tf.io.gfile
        except tf.errors.NotFoundError as error:
            raise FileNotFoundError(f"there is no {self._path}") from error
        except tf.errors.OpError as error:
            raise OSError(f"{self._path}: {' '.join(error.message.split())}") from error


def _check_scheme(scheme, known):
    """Loads the file systems of tensorflow-io if TensorFlow has none of this scheme."""
    if scheme in known:
        return
    try:
        import tensorflow_io  # noqa: F401, which registers them
    except ImportError as error:
        raise ValueError(
            f"TensorFlow has no file system {scheme}://, only {', '.join(sorted(filter(None, known)))}; install the "
            "tensorflow-io of its version, or copy the files"
        ) from error
