"""CSVLogger: writes metrics to a CSV file."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import as_path
from estimator_train.loggers.logger import Logger


class CSVLogger(Logger):
    """Writes metrics to `metrics.csv` in a directory, one row per global step.

    Everything logged at a step goes into its row. The file is rewritten each time, so new metrics become new columns,
    with those of evaluations last. A training that resumes from an earlier step replaces the rows after that step.

        >>> logger = et.loggers.CSVLogger("runs/csv")
        >>> logger.log_metrics(100, {"loss": 0.31})
        >>> logger.log_metrics(100, {"val_loss": 0.35})
        >>> from pathlib import Path
        >>> Path("runs/csv/metrics.csv").read_text()
        'step,loss,val_loss\\n100,0.31,0.35\\n'

    The directory is created if it is missing. Raises ValueError if there is a `metrics.csv` whose column `step` is
    missing or not made of integers.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = as_path(folder, "metrics.csv")
        self._lines: dict[int, dict[str, object]] = {}
        if self._path.exists():
            try:
                lines = csv.DictReader(io.StringIO(self._path.read_text(), newline=""))
                self._lines = {int(line["step"]): dict(line) for line in lines}
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{self._path} is not a CSV file with a column of steps; move it elsewhere") from error

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        earlier = {at: line for at, line in self._lines.items() if at <= step}
        self._lines = earlier | {step: {"step": step, **earlier.get(step, {}), **metrics}}
        columns = dict.fromkeys(name for line in self._lines.values() for name in line)
        text = io.StringIO()
        ordered = sorted(columns, key=lambda name: (name != "step", name != "epoch", name.startswith("val_")))
        writer = csv.DictWriter(text, ordered, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._lines.values())
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, text.getvalue())
