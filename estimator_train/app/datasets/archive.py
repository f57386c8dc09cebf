"""Unpacks zip archives safely, and resumes after interruptions."""

import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import tqdm

from estimator_train._engine.host.paths import StrPath
from estimator_train.app.datasets.disk import full_disk_in_one_line, require_room


class UnknownLayoutError(ValueError):
    """An intact archive has none of the files that are looked for."""


def flaw_of(path: Path) -> str | None:
    """Returns why a file cannot be a complete zip archive, or None."""
    if zipfile.is_zipfile(path):
        return None
    with path.open("rb") as file:
        start = file.read(1000).lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "is a web page, not a zip file: perhaps one that asks to sign in"
    return "is not a zip file, or is truncated"


def unpack(archive: Path, directory: Path, place: Callable[[tuple[str, ...]], StrPath | None]) -> None:
    """Unpacks a zip archive into `directory`, which appears only when it is complete.

    Until then the files are in a hidden directory next to it. A file gets its final name there once it is complete, so
    that an interrupted run can be resumed. The CRC of every file is checked.

    `place` maps the parts of an entry's path to its path in `directory`, or to None to skip the entry. If several
    entries map to one path, the first is used.

    Raises:
      ValueError: the archive is damaged, or has a path that leads out of the directory.
      UnknownLayoutError: it has no entry to unpack.
      OSError: the disk is full.
    """
    unfinished = directory.with_name(f".{directory.name}.part")
    unfinished.mkdir(parents=True, exist_ok=True)
    try:
        with full_disk_in_one_line(directory), zipfile.ZipFile(archive) as source:
            files = _files(source, place)
            missing = {path: entry for path, entry in files.items() if not _is_there(unfinished / path, entry)}
            num_bytes = sum(entry.file_size for entry in missing.values())
            require_room(unfinished, num_bytes, f"unpacking {archive}")
            with tqdm.tqdm(desc=f"unpacking {archive.name}", total=num_bytes, unit="B", unit_scale=True) as progress:
                for path, entry in missing.items():
                    _extract(source, entry, unfinished / path, unfinished / ".file")
                    progress.update(entry.file_size)
    # zipfile raises RuntimeError for encryption and NotImplementedError for unknown compression.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"the archive {archive} is damaged: {error}") from error
    unfinished.rename(directory)


def _files(source, place):
    files = {}
    for entry in source.infolist():
        if not entry.filename:
            raise ValueError(f"the archive {source.filename} is damaged: an entry has no name")
        path = PurePosixPath(entry.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"the archive {source.filename} is not safe: {entry.filename!r} leads out of its folder")
        placed = None if entry.is_dir() else place(path.parts)
        if placed is not None:
            files.setdefault(placed, entry)
    if not files:
        inner = [entry.filename for entry in source.infolist() if entry.filename.endswith(".zip")]
        instead = f"; unpack the zip file within it, {inner[0]}, by hand" if inner else ""
        raise UnknownLayoutError(f"the archive {source.filename} holds none of the files of the dataset{instead}")
    return files


def _is_there(path, entry):
    return path.is_file() and path.stat().st_size == entry.file_size


def _extract(source, entry, path, part):
    path.parent.mkdir(parents=True, exist_ok=True)
    with source.open(entry) as packed, Path(part).open("wb") as file:
        shutil.copyfileobj(packed, file)
    os.replace(part, path)
