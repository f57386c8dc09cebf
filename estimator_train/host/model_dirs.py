"""Paths of model directories, and the checkpoints in them by their names alone, without TensorFlow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from estimator_train.host.paths import is_remote

_GLOB = set("*?[\\") - {os.sep}


def absolute(model_dir: str | os.PathLike[str]) -> str:
    """`model_dir` as an absolute path, which outlasts os.chdir; remote paths stay as they are.

    Raises:
      ValueError: TensorFlow would take the path for a pattern, and neither find nor delete its checkpoints.
    """
    path = os.fspath(model_dir)
    if path and not is_remote(path) and not os.path.isabs(path):
        path = str(Path(path).absolute())  # unlike os.path.abspath, right for link/..
    signs = sorted(_GLOB & set(path))
    if signs:
        raise ValueError(f"model_dir {path} has {' '.join(signs)}, which TensorFlow takes for a pattern; rename it")
    return path


def checkpoints_among(names: Iterable[str]) -> list[str]:
    """Names of the checkpoints whose index files are among the file names, the one of the lowest step first.

    Those of a training end with .ckpt-STEP; others, such as one that it starts from, do not count.
    """
    found = (re.fullmatch(r"(.+\.ckpt-(\d+))\.index", name) for name in names)
    return [match[1] for match in sorted(filter(None, found), key=lambda match: int(match[2]))]
