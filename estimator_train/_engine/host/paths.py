"""Local paths and remote ones, such as gs://bucket/run, with pathlib's methods; only the latter import TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]  # a path as users give it: a text, or an object of pathlib


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Returns whether `path` is on a file system that only TensorFlow can read, such as gs://bucket/run."""
    return "://" in os.fspath(path)


def as_path(*parts: str | os.PathLike[str]) -> Path | RemotePath:
    """Returns the joined `parts` as a `Path`, or as a `RemotePath` if the first is remote."""
    if is_remote(parts[0]):
        return RemotePath(os.path.join(*parts).rstrip("/"))
    return Path(*parts)


def absolute(path: str | os.PathLike[str]) -> str:
    """Returns `path` as an absolute path without "..", which may follow a link; remote paths are unchanged."""
    if is_remote(path):
        return os.fspath(path)
    return os.path.realpath(path) if ".." in os.fspath(path).split(os.sep) else os.path.abspath(path)


def why_not_utf_8(path: str | os.PathLike[str]) -> str | None:
    """Returns why TensorFlow cannot use a name with surrogates, as the end of a sentence; None if it can."""
    if not any("\ud800" <= sign <= "\udfff" for sign in os.fspath(path)):
        return None
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        return f"has letters that the locale's encoding, {encoding}, lacks; set LC_ALL=C.UTF-8, without PYTHONUTF8=0"
    return "is not UTF-8, which TensorFlow needs; rename it"


def local(path: str | os.PathLike[str]) -> Path:
    """Returns `path` as a `Path`; raises ValueError if it is remote."""
    if is_remote(path):
        raise ValueError(f"{os.fspath(path)} is remote; use a local directory")
    return Path(path)


def scandir(directory: Path | RemotePath) -> Iterator[os.DirEntry[str]] | Iterator[RemotePath]:
    """Returns the entries of a directory, which have name, path, is_dir and is_file."""
    return directory.iterdir() if isinstance(directory, RemotePath) else os.scandir(directory)


def file_finder() -> Callable[[str], bool]:
    """Returns a function that tells whether a file exists and lists each remote directory only once."""
    names_in = functools.cache(lambda directory: {path.name for path in RemotePath(directory).glob("*")})

    def is_there(path: str) -> bool:
        directory, name = os.path.split(path)
        return name in names_in(directory) if is_remote(path) else os.path.isfile(path)

    return is_there


# `etils.epath` does not fit: it lacks ram:// and hdfs:// and answers them with a KeyError, raises TensorFlow's errors
# instead of OSError, and does not load tensorflow-io for the schemes that TensorFlow itself lacks, such as s3://.
@dataclasses.dataclass(frozen=True, order=True)
class RemotePath:
    """The part of pathlib that this package uses, with its errors, on `tf.io.gfile`; ValueError for other schemes."""

    path: str

    def __fspath__(self) -> str:
        return self.path

    __str__ = __fspath__

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(os.path.join(self.path, name))

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def parent(self) -> RemotePath:
        return RemotePath(os.path.dirname(self.path))

    def resolve(self) -> RemotePath:
        return self

    def exists(self) -> bool:
        with self._gfile() as gfile:
            return gfile.exists(self.path)

    def is_dir(self) -> bool:
        with self._gfile() as gfile:
            return gfile.isdir(self.path)

    def is_file(self) -> bool:
        return self.exists() and not self.is_dir()

    def iterdir(self) -> Iterator[RemotePath]:
        with self._gfile() as gfile:
            names = gfile.listdir(self.path)  # object stores append a / to directories
        return (self / name.rstrip("/") for name in names if name.rstrip("/"))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Returns the paths directly in this directory whose names match `pattern`; none if it does not exist."""
        if not self.is_dir():
            return iter(())
        return (path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, pattern))

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Creates the directory and its parents; object stores have no directories and accept files without them."""
        with self._gfile() as gfile:
            gfile.makedirs(self.path)

    @contextlib.contextmanager
    def open(self, mode: str) -> Iterator[IO[bytes]]:
        """Opens the file for reading bytes; use `files.write_whole` for writing."""
        with self._gfile() as gfile, gfile.GFile(self.path, mode) as file:
            yield file

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    @contextlib.contextmanager
    def _gfile(self) -> Iterator[types.ModuleType]:
        """Yields tf.io.gfile and converts its errors to those of pathlib."""
        import tensorflow as tf  # not for local paths

        _check_scheme(self.path.partition("://")[0], tf.io.gfile.get_registered_schemes())
        try:
            yield tf.io.gfile
        except tf.errors.NotFoundError as error:
            raise FileNotFoundError(f"there is no {self.path}") from error
        except tf.errors.OpError as error:
            raise OSError(f"{self.path}: {' '.join(error.message.split())}") from error


def _check_scheme(scheme: str, known: Iterable[str]) -> None:
    """Loads the file systems of tensorflow-io if TensorFlow has none of this scheme."""
    if scheme in known:
        return
    try:
        import tensorflow_io  # noqa: F401, which registers them
    except ImportError as error:
        raise ValueError(
            f"TensorFlow has no file system {scheme}://, only {', '.join(sorted(filter(None, known)))}; install the "
            "tensorflow-io version for this TensorFlow, or copy the files"
        ) from error
