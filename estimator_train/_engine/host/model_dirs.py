"""Checks paths of model directories, and finds checkpoints by their file names, without TensorFlow."""

import os
import re
from collections.abc import Iterable

from estimator_train._engine.host import paths

_GLOB = set("*?[\\") - {os.sep}


def absolute(model_dir: str | os.PathLike[str]) -> str:
    """Returns `model_dir` as an absolute path; ValueError if TensorFlow cannot read it, or takes it for a pattern."""
    path = os.fspath(model_dir)
    # TensorFlow would replace link/.. by the link's own directory.
    if path and (not os.path.isabs(path) or ".." in path.split(os.sep)):
        path = paths.absolute(path)
    signs = sorted(_GLOB & set(path))
    if signs:
        raise ValueError(f"model_dir {path} has {' '.join(signs)}, which TensorFlow takes for a pattern; rename it")
    if reason := paths.why_not_utf_8(path):
        raise ValueError(f"model_dir {path!a} {reason}")
    return path


def checkpoints_among(names: Iterable[str]) -> list[str]:
    """Returns the checkpoints of a training, .ckpt-STEP at the end, whose index files are among `names`, by step."""
    found = (re.fullmatch(r"(.+\.ckpt-(\d+))\.index", name) for name in names)
    return [match[1] for match in sorted(filter(None, found), key=lambda match: int(match[2]))]
