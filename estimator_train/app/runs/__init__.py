"""The files that a run writes to its directory, and `StoredRun`, which reads them."""

from estimator_train._engine.host.paths import StrPath
from estimator_train.app.runs.stored_run import StoredRun

__all__ = ["StoredRun", "open"]


def open(model_dir: StrPath) -> StoredRun:
    """Returns the run in a directory; raises ValueError if there is none; see `StoredRun`.

    >>> et.runs.open("runs/scans")
    <StoredRun runs/scans>
    """
    return StoredRun(model_dir)
