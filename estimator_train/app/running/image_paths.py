"""The image files that names, folders and patterns stand for."""

import collections
import glob
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from estimator_train._engine.host.files import quoted
from estimator_train._engine.host.paths import as_path, is_remote
from estimator_train.app.datasets.images import SUFFIXES, subdirectories
from estimator_train.app.errors import SettingError


class Found(NamedTuple):
    """Image files, and what else there is."""

    paths: list[str]  # of image files, without repetitions
    others: collections.Counter[str]  # the other files in folders, by their endings
    faults: list[str]  # a line for each folder that cannot be read, and each argument that is no image file


class Predicted(NamedTuple):
    """Predictions for image files."""

    entries: list[dict[str, Any]]  # as `predict --json` prints them
    others: collections.Counter[str]  # other files in folders, by their endings
    faults: list[str]  # a line for each file or folder without predictions


def find_images(arguments: Sequence[str]) -> Found:
    """Returns the image files that names, folders and patterns stand for; raises SettingError if there is none."""
    if not arguments:
        raise SettingError("there is nothing to predict; give image files, or folders of them")
    others: collections.Counter[str] = collections.Counter()
    unreadable: list[str] = []
    found = {argument: _image_files(argument, others, unreadable) for argument in arguments}
    present = dict.fromkeys(path for paths in found.values() for path in paths)
    absent = [argument for argument, paths in found.items() if not paths]
    # Opening a pipe that nothing writes to would block forever.
    special = [path for path in present if os.path.exists(path) and not os.path.isfile(path)]
    paths = [path for path in present if path not in special]
    if not paths:
        nothing = f"there is no image file {quoted(absent + special)}"
        raise SettingError("{0}", "; ".join([nothing, *unreadable]))
    faults = [f"{argument}: there is no such image file" for argument in absent]
    faults += [f"{path} is a pipe, socket or device, not an image file" for path in special]
    return Found(paths, others, unreadable + faults)


def _image_files(argument, others, unreadable):
    """Returns the image paths that an argument stands for. Names may contain wildcards, and directories brackets."""
    found = (_images_at(as_path(place), others, unreadable) for place in _places(argument))
    return [path for paths in found for path in paths]


def _places(argument):
    """Returns the files and folders of that name, or those that match it as a pattern."""
    if os.path.exists(argument) or (is_remote(argument) and as_path(argument).exists()):
        return [argument]
    return _matching(argument) or _matching(argument.replace("[", "[[]"))


def _matching(pattern):
    if is_remote(pattern):
        return sorted(map(str, as_path(os.path.dirname(pattern)).glob(os.path.basename(pattern))))
    return sorted(glob.glob(pattern, recursive=True))


def _images_at(folder, others, unreadable, above=()):
    """Returns a file, or the image files in a directory and its subdirectories, and counts others by ending.

    Hidden ones are neither. A link to one of the directories `above`, given by their real paths, is not followed. A
    line about each directory that cannot be read is added to `unreadable`.
    """
    real = str(folder)
    if not folder.is_dir():
        return [real]
    if not is_remote(folder):
        real = os.path.realpath(folder)
    if real in above:
        return []
    try:
        files = [str(path) for path in folder.iterdir() if not path.is_dir() and not path.name.startswith(".")]
        subfolders = subdirectories(folder)
    except OSError as error:
        unreadable.append(f"{folder} cannot be read: {error.strerror or error}")
        return []
    here = sorted(path for path in files if path.lower().endswith(SUFFIXES))
    others.update(os.path.splitext(path)[1].lower() for path in files if not path.lower().endswith(SUFFIXES))
    below = (_images_at(subfolder, others, unreadable, (*above, real)) for subfolder in subfolders)
    return here + [path for paths in below for path in paths]
