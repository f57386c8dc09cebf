"""The functions of the old module `gc` that users' exporters call to delete old exports."""

from __future__ import annotations

import os
from typing import NamedTuple

import tensorflow as tf


class Path(NamedTuple):
    """A file or directory with its version, an int or None."""

    path: str
    export_version: int | None


def _get_paths(base_dir, parser):
    """Returns the sorted entries of a directory. `parser` adds the version to a `Path`, or returns None to skip it."""
    entries = [Path(os.path.join(base_dir, name.rstrip("/")), None) for name in tf.io.gfile.listdir(base_dir)]
    return sorted(parsed for parsed in map(parser, entries) if parsed)


def _largest_export_versions(n):
    """Returns a filter of lists of `Path` that keeps the `n` largest versions, sorted."""

    def keep(paths):
        versioned = [path for path in paths if path.export_version is not None]
        return sorted(sorted(versioned, key=lambda path: path.export_version, reverse=True)[:n])

    return keep


def _negation(keep):
    """Returns a filter of lists of `Path` that keeps what the filter `keep` drops, sorted."""
    return lambda paths: sorted(set(paths) - set(keep(paths)))
