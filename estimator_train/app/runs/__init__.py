"""The files that a run writes to its directory, and `StoredRun`, which reads them."""

from estimator_train.app.runs.stored_run import StoredRun

__all__ = ["StoredRun"]
