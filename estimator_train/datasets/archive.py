"""Unpacking zip archives: safely, and on from where it was interrupted."""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import tqdm

from estimator_train.datasets.disk import full_disk_in_one_line, require_room


def unpack(archive: Path, folder: Path, place: Callable[[tuple[str, ...]], str | os.PathLike[str] | None]) -> None:
    """Unpacks a zip archive into `folder`, which appears once it is complete.

    Until then the files are in a hidden directory next to it, where each has its name only once it is complete, so an
    interrupted run can be continued. The CRC of every file is checked.

    Args:
      place: a function of the parts of an entry's path that gives its path in `folder`, or None to leave it out. Of
        entries with one path, the first is taken.

    Raises:
      ValueError: the archive is damaged, has a path that leads out of the folder, or nothing that has a place.
      OSError: the disk is full.
    """
    unfinished = folder.with_name(f".{folder.name}.part")
    unfinished.mkdir(parents=True, exist_ok=True)
    try:
        with full_disk_in_one_line(folder), zipfile.ZipFile(archive) as source:
            files = _files(source, place)
            missing = {path: entry for path, entry in files.items() if not _is_there(unfinished / path, entry)}
            num_bytes = sum(entry.file_size for entry in missing.values())
            require_room(unfinished, num_bytes, f"unpacking {archive}")
            with tqdm.tqdm(desc=f"unpacking {archive.name}", total=num_bytes, unit="B", unit_scale=True) as progress:
                for path, entry in missing.items():
                    _extract(source, entry, unfinished / path, unfinished / ".file")
                    progress.update(entry.file_size)
    # RuntimeError and NotImplementedError are zipfile's words for encryption and unknown compression.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"the archive {archive} is damaged: {error}") from error
    unfinished.rename(folder)


def _files(source, place):
    """Returns {path in the folder: entry} of the entries that have a place."""
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
        raise ValueError(f"the archive {source.filename} holds none of the files of the dataset")
    return files


def _is_there(path, entry):
    return path.is_file() and path.stat().st_size == entry.file_size


def _extract(source, entry, path, part):
    path.parent.mkdir(parents=True, exist_ok=True)
    with source.open(entry) as packed, Path(part).open("wb") as file:
        shutil.copyfileobj(packed, file)
    os.replace(part, path)
