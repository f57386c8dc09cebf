"""`Evaluation`: what an evaluation of a run's checkpoint found, to be looked at; and how it is made and kept."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from estimator_train._engine.host.html_table import html_table
from estimator_train._engine.host.paths import StrPath
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.metrics import tasks
from estimator_train.app.running import evaluation, label_thresholds
from estimator_train.app.running.opened_run import Examined
from estimator_train.app.runs import predictions_file
from estimator_train.app.runs.spec import Settings


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """An evaluation of a run's checkpoint; a table in a notebook.

    Attributes:
      entry: the line of evaluations.jsonl, as `runs.evaluations.entry_of` returns it.
      result: metrics computed from the examples, as `metrics.tasks` has them; None without classes or numbers.
    """

    entry: dict[str, Any]
    result: tasks.Result | None
    _settings: Settings
    _data: Dataset | None  # None for an input_fn
    _evaluated: evaluation.Evaluated
    _thresholds: dict[str, float] | None

    @property
    def checkpoint(self) -> str:
        """Name of the checkpoint, such as "model.ckpt-300"."""
        return self.entry["checkpoint"]

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the model, with those computed from the examples."""
        return self.entry["metrics"]

    @property
    def classes(self) -> dict[str, dict[str, Any]]:
        """{class or label: {metric: value}}; empty without classes."""
        values = dataclasses.asdict(self.result) if self.result is not None else {}
        return values.get("classes") or values.get("labels") or {}

    @property
    def confusion_matrix(self) -> list[list[int]] | None:
        """Numbers of examples, a row per true and a column per predicted class, in the order of `classes`, or None."""
        return getattr(self.result, "confusion_matrix", None)

    @property
    def predictions(self) -> list[dict[str, Any]]:
        """A row per example: its name, true and predicted value, and each probability, as for `pandas.DataFrame`."""
        if self.result is None:
            return []
        header, *rows = predictions_file.rows_of(*self._examples())
        return [dict(zip(header, row, strict=True)) for row in rows]

    def write_predictions(self, file: StrPath) -> None:
        """Writes these rows to a file as comma-separated values, completely or not at all."""
        predictions_file.write_all(file, *self._examples())

    def _examples(self) -> tuple[Any, ...]:
        settings, evaluated = self._settings, self._evaluated
        about = settings.task, settings.class_names, self._data
        return *about, evaluated.labels, evaluated.outputs, self._thresholds

    def __repr__(self) -> str:
        numbers = {name: value for name, value in self.metrics.items() if isinstance(value, (int, float))}
        return (
            f"<Evaluation of {self.checkpoint}: {', '.join(f'{name} {value:.4g}' for name, value in numbers.items())}>"
        )

    def _repr_html_(self) -> str:
        numbers = {name: f"{value:.4g}" for name, value in self.metrics.items() if isinstance(value, (int, float))}
        return html_table(self.checkpoint, numbers)


def evaluations(
    examined: Examined,
    model_dir: str,
    place: str | None,
    paths: Sequence[str],
    *,
    choose_thresholds: bool,
    ranks: bool,
) -> Iterator[Evaluation]:
    """Evaluates checkpoints on what is `Examined`, keeps what comes of it in `place`, if any, and yields each one's."""
    settings, data, images = examined
    thresholds = None  # checkpoints are ranked by the same thresholds
    if choose_thresholds:
        thresholds = label_thresholds.choose(settings, data, model_dir, *paths)
    elif not ranks:
        thresholds = label_thresholds.kept(settings, model_dir, *paths)
    for path, evaluated in zip(paths, evaluation.evaluate(settings, data, place, paths, thresholds), strict=True):
        entry = evaluation.keep(settings, data, place, path, evaluated, name=evaluation.AFTERWARDS, images=images)
        yield Evaluation(entry, evaluated.result, settings, data, evaluated, thresholds)
