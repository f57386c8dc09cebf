"""CSVLogger: writes metrics to a CSV file."""

import csv
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from estimator_train._engine.host.files import no_link, write_whole
from estimator_train._engine.host.paths import as_path
from estimator_train.loggers.logger import Logger


class CSVLogger(Logger):
    """Writes metrics to `metrics.csv` in a directory, one row per global step.

    Everything logged at a step goes into its row. New metrics become new columns, with those of evaluations last; the
    file is then rewritten. A training that resumes from an earlier step replaces the rows after that step.

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
        self._columns: list[str] = []  # those that the file has
        self._last = -1  # its last step
        self._lines()

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        line = {"step": step, **metrics}
        if step > self._last and set(self._columns).issuperset(line) and self._can_append():
            with open(self._path, "a", newline="", opener=no_link) as file:
                file.write(self._text([line]))
        else:
            lines: dict[int, dict[str, object]] = {at: line for at, line in self._lines().items() if at <= step}
            lines[step] = lines.get(step, {}) | line
            columns = dict.fromkeys(name for line in lines.values() for name in line)
            self._columns = sorted(columns, key=lambda name: (name != "step", name != "epoch", name.startswith("val_")))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, self._header() + self._text(lines.values()))
        self._last = step

    def _can_append(self) -> bool:
        """Returns whether the file has these columns; object stores cannot append."""
        if not isinstance(self._path, Path) or not self._path.exists():
            return False
        with open(self._path, newline="") as file:
            return file.readline() == self._header()

    def _header(self) -> str:
        return self._text([dict(zip(self._columns, self._columns, strict=True))])

    def _lines(self) -> dict[int, dict[str, object]]:
        """Returns the lines of the file by their steps, without one that a killed process has left unfinished."""
        if not self._path.exists():
            return {}
        text = self._path.read_text()
        try:
            lines = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline=""))
            return {int(line["step"]): dict(line) for line in lines}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self._path} is not a CSV file with a column of steps; move it elsewhere") from error

    def _text(self, lines: Iterable[Mapping[str, object]]) -> str:
        text = io.StringIO()
        csv.DictWriter(text, self._columns, lineterminator="\n").writerows(lines)
        return text.getvalue()
