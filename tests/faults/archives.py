"""Hostile archives are refused in one line or unpacked inside their directory, and write nothing outside it."""

from __future__ import annotations

import io
import os
import random
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

from estimator_train.app.datasets.archive import unpack
from tests.faults.runs import Row

_NAMES = {
    "leads up": "../evil",
    "leads up later": "images/../../evil",
    "is absolute": "/tmp/estimator_train-evil",
    "leads up with backslashes": "..\\evil",
    "is absolute on Windows": "C:\\evil",
    "is a share": "\\\\host\\evil",
    "is a dot": "./evil",
    "is two dots": "..",
    "is empty": "",
    "is a device": "/dev/null",
    "has a newline": "images/a\nb",
    "has an escape": "images/\x1b[2J",
    "is long": "n" * 5000,
    "is deep": "a/" * 600 + "b",
    "is the folder's own": ".data.part/.file",
}


def _named(name):
    return _zipped([(zipfile.ZipInfo(name), b"evil")])


def _zipped(entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in entries:
            archive.writestr(info, content)
    return file.getvalue()


def _link():
    info = zipfile.ZipInfo("images")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return _zipped([(info, b"/tmp"), (zipfile.ZipInfo("images/estimator_train-evil"), b"evil")])


def _twice():
    return _zipped([(zipfile.ZipInfo("images/a"), b"a"), (zipfile.ZipInfo("images/a"), b"b")])


def _file_and_folder():
    return _zipped([(zipfile.ZipInfo("images"), b"a"), (zipfile.ZipInfo("images/a"), b"b")])


def _larger_than_told():
    content = bytearray(_zipped([(zipfile.ZipInfo("images/a"), bytes(1000))]))
    at = content.rindex(b"PK\x01\x02") + 24  # the size in the list of contents
    content[at : at + 4] = (7).to_bytes(4, "little")
    return bytes(content)


def _larger_than_the_disk():
    content = bytearray(_zipped([(zipfile.ZipInfo("images/a"), b"a")]))
    at = content.rindex(b"PK\x01\x02") + 24
    content[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    return bytes(content)


def _encrypted():
    content = bytearray(_zipped([(zipfile.ZipInfo("images/a"), b"a")]))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + offset] |= 1
    return bytes(content)


def _of_an_unknown_compression():
    content = bytearray(_zipped([(zipfile.ZipInfo("images/a"), b"a")]))
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.index(mark) + offset] = 77
    return bytes(content)


def _cut_off():
    return _named("images/a")[:-10]


def _nothing():
    return b""


def _noise():
    return random.Random(1).randbytes(5000)


KINDS: dict[str, Callable[[], bytes]] = {
    **{f"a path that {how}": lambda name=name: _named(name) for how, name in _NAMES.items()},
    **{
        function.__name__.strip("_").replace("_", " "): function
        for function in (
            *(_link, _twice, _file_and_folder, _larger_than_told, _larger_than_the_disk, _encrypted),
            *(_of_an_unknown_compression, _cut_off, _nothing, _noise),
        )
    },
}


def run(count: int, seed: int, folder: str | os.PathLike[str]) -> list[Row]:
    """Unpacks archives of `count` kinds, or of all if there are fewer."""
    kinds = random.Random(seed).sample(sorted(KINDS), min(count, len(KINDS)))
    return [_unpack(kind, Path(folder).resolve() / str(number)) for number, kind in enumerate(kinds)]


def _unpack(kind, home):
    home.mkdir(parents=True)
    archive, data = home / "hostile.zip", home / "data"
    archive.write_bytes(KINDS[kind]())
    outside = set(Path("/tmp").glob("estimator_train-evil"))
    try:
        unpack(archive, data, lambda parts: os.path.join(*parts) if parts else None)
        outcome = "unpacked"
    except (ValueError, OSError) as error:
        outcome = f"refused: {error}".replace(str(home), "")
        if len(outcome.splitlines()) > 1:
            return Row(kind, "", f"more than a line: {outcome}")
    unfinished = home / ".data.part"
    found = {path for path in home.rglob("*") if not path.is_relative_to(data) and not path.is_relative_to(unfinished)}
    beside = found - {archive} | set(Path("/tmp").glob("estimator_train-evil")) - outside
    links = [path for path in home.rglob("*") if path.is_symlink()]
    return Row(kind, outcome[:100], f"left {', '.join(map(str, [*beside, *links]))}" if beside or links else None)
