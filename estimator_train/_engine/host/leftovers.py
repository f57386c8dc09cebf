"""Removes unfinished files of TensorFlow and of this package that a killed training left in its model_dir."""

import logging
import os
import re

from estimator_train._engine.host import files

log = logging.getLogger("tensorflow")  # that of tf.get_logger()

# Patterns of exact names, which a user's files do not have.
_CHECKPOINT = r"model\.ckpt-\d+"
_DATA = r"data-\d{5}-of-\d{5}"
_PARTS_DIRECTORY = re.compile(rf"{_CHECKPOINT}_temp(_[0-9a-f]{{32}})?")
_PART = re.compile(rf"part-\d{{5}}-of-\d{{5}}\.(index|{_DATA})(\.tempstate\d+)?")
_UNFINISHED = re.compile(
    rf"(checkpoint|graph\.pbtxt|{_CHECKPOINT}\.meta)\.tmp[0-9a-f]{{32}}|{_CHECKPOINT}\.(index|{_DATA})\.tempstate\d+"
)
_DATA_FILE = re.compile(rf"({_CHECKPOINT})\.{_DATA}")
_EXPORT = re.compile(r"temp-\d{10}(?:-(\w+-\d+))?")
_UNKNOWN = "elsewhere-0"  # stands for the process of an export of tf.estimator, which does not record it


def remove(model_dir: str) -> None:
    """Removes leftovers from `model_dir`; call it before anything is saved there."""
    # Only the training process saves checkpoints, so every unfinished one is a leftover. Exports and reports may be in
    # progress in another process, so they are removed only if that process is gone.
    names = files.names_in(model_dir)
    removed = [name for name in names if _is_unfinished_checkpoint(model_dir, name, names)]
    removed += _abandoned_in(model_dir) + [os.path.join("report", name) for name in _abandoned_in(model_dir, "report")]
    for exporter in files.names_in(os.path.join(model_dir, "export")):
        directory = os.path.join("export", exporter)
        removed += [os.path.join(directory, name) for name in _abandoned_in(model_dir, directory)]
    _remove_from(model_dir, removed)


def remove_abandoned(directory: str) -> None:
    """Removes the unfinished files of processes that are gone from any directory; see `files.unfinished`."""
    _remove_from(directory, _abandoned_in(directory))


def _remove_from(directory: str, names: list[str]) -> None:
    for name in names:
        files.remove(os.path.join(directory, name))
    if names:
        log.info("Removed leftovers of an interrupted run from %s: %s", directory, ", ".join(names))


def _abandoned_in(*directories: str) -> list[str]:
    directory = os.path.join(*directories)
    names = files.names_in(directory)
    return [name for name in names if _is_abandoned(directory, name)]


def _is_abandoned(directory: str, name: str) -> bool:
    process = files.owner_of_unfinished(name)
    if export := _EXPORT.fullmatch(name):
        process = export[1] or _UNKNOWN
    if process is None:
        return False
    _, last_seen = files.size_and_time(os.path.join(directory, name))
    return files.is_gone(process, last_seen / 1e9)


def _is_unfinished_checkpoint(model_dir: str, name: str, names: list[str]) -> bool:
    if _PARTS_DIRECTORY.fullmatch(name):
        return all(_PART.fullmatch(part) for part in files.names_in(os.path.join(model_dir, name)))
    data = _DATA_FILE.fullmatch(name)
    return bool(_UNFINISHED.fullmatch(name)) or (data is not None and f"{data[1]}.index" not in names)
