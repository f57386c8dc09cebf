"""Names of the old module `gc` that exporters in users' code call to keep only the newest exports."""

from __future__ import annotations

import os
from typing import NamedTuple

import tensorflow as tf


class Path(NamedTuple):
    """A file or directory, and its version, an int or None."""

    path: str
    export_version: int | None


def _get_paths(base_dir, parser):
    """The entries of a directory, sorted. `parser` gives each `Path` its version, or None to leave it out."""
    entries = [Path(os.path.join(base_dir, name.rstrip("/")), None) for name in tf.io.gfile.listdir(base_dir)]
    return sorted(parsed for parsed in map(parser, entries) if parsed)


def _largest_export_versions(n):
    """A filter of lists of `Path`: the `n` of the largest versions, sorted."""

    def keep(paths):
        versioned = [path for path in paths if path.export_version is not None]
        return sorted(sorted(versioned, key=lambda path: path.export_version, reverse=True)[:n])

    return keep


def _negation(keep):
    """Returns a filter of lists of `Path` that keeps what the filter `keep` drops, sorted."""
    return lambda paths: sorted(set(paths) - set(keep(paths)))
