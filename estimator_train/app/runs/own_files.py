"""The files and directories that a run writes in its directory, which may be somebody else's."""

import os
from pathlib import Path

from estimator_train._engine.host.paths import RemotePath, is_remote

_FILES = (
    "run.json",
    "timing.json",
    "evaluations.jsonl",
    "predictions.csv",
    "sides.csv",
    "thresholds.json",
    "metrics.csv",
    "loggers.json",
    "checkpoint",
    "graph.pbtxt",
    "report/report.html",
)
_DIRECTORIES = ("eval", "eval_final", "eval_afterwards", "report", "export", "exported")


def obstacle_in(directory: Path | RemotePath) -> str | None:
    """Returns what keeps a run from writing its files in `directory`, and the remedy; None if nothing does."""
    for path in [*(directory / name for name in _FILES), *directory.glob("model.ckpt-*.*")]:
        if path.exists() and not path.is_file():
            return f"{path} is not a file, but a run keeps a file of that name; move it elsewhere"
    if link := _link_outwards(directory):
        return f"{link} is a link that leads out of the run; remove it"
    for path in (directory / name for name in _DIRECTORIES):
        if path.exists() and not path.is_dir():
            return f"{path} is not a folder, but a run keeps a folder of that name; move it elsewhere"
    return None


def _link_outwards(directory):
    """Returns what a run writes in `directory` and what is a link to a place outside; None if nothing is."""
    if is_remote(directory):
        return None
    inside = os.path.realpath(directory) + os.sep
    names = ("evaluations.jsonl", "training.lock", "learning_rate.png", "images", *_DIRECTORIES)
    patterns = ("export/*", "images/*", "*_temp*")
    written = [directory / name for name in names]
    written += [path for pattern in patterns for path in directory.glob(pattern)]
    for path in written:
        if path.is_symlink() and not os.path.realpath(path).startswith(inside):
            return path
    return None
