"""CSVLogger: metrics as a CSV file."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping

from estimator_train.host.files import write_whole
from estimator_train.host.paths import as_path
from estimator_train.loggers.logger import Logger


class CSVLogger(Logger):
    """Writes `metrics.csv` in a folder: a line for each global step that metrics were logged at.

    All that is logged at a step is in its line. The file is written whole each time, so new metrics become new columns;
    those of evaluations come last. A training that continues from an earlier step replaces the lines after that step.

        logger = et.loggers.CSVLogger("runs/oct2017")
        logger.log_metrics(100, {"loss": 0.31, "val_loss": 0.35})

    Args:
      folder: the folder of the run; it is made if it is missing.

    Raises:
      ValueError: there is a `metrics.csv` that has no whole number in its column `step`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = as_path(folder, "metrics.csv")
        self._lines: dict[int, dict[str, object]] = {}
        if self._path.exists():
            try:
                lines = csv.DictReader(io.StringIO(self._path.read_text(), newline=""))
                self._lines = {int(line["step"]): dict(line) for line in lines}
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{self._path} is no CSV file with a column of steps; move it elsewhere") from error

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
