"""--monitor: the metric that early stopping and the best checkpoint go by, and which of its values are better."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import click

from estimator_train.cli.parameters import Text
from estimator_train.host.paths import as_path

# Numbers of a `report.classification.Classification`; training computes the one that is monitored in its evaluations.
OF_CLASSES = ("macro_precision", "macro_recall", "macro_f1", "macro_roc_auc")

# Words in the names of the usual metrics, Keras' among them.
_LOWER = {"loss", "error", "crossentropy", "mse", "mae", "mape", "msle", "rmse", "logcosh", "hinge", "perplexity"}
_HIGHER = {"accuracy", "acc", "auc", "precision", "recall", "sensitivity", "specificity", "f1", "dice", "iou", "kappa"}


class Monitor(NamedTuple):
    """A metric by its name in evaluations, and the direction of better values, "min" or "max"."""

    metric: str
    direction: str

    @classmethod
    def of(cls, text: str | None) -> Monitor:
        """That of a checked --monitor; of None, the loss.

        >>> Monitor.of("macro_f1:max").better
        'higher'
        """
        metric, _, direction = (text or "loss:min").rpartition(":")
        return cls(metric, direction)

    @property
    def better(self) -> str:
        return "lower" if self.direction == "min" else "higher"


class Metric(Text):
    """METRIC:min or METRIC:max, where METRIC alone is given its usual direction."""

    name = "METRIC[:min|max]"

    def convert(self, value, param, ctx):
        value = super().convert(value, param, ctx).removeprefix("val_")  # Keras' name of an evaluation's metric
        metric, colon, direction = value.rpartition(":")
        if metric and direction in ("min", "max"):
            return value
        if colon:
            self.fail(f"{value!r} ends in neither :min nor :max, such as accuracy:max.", param, ctx)
        words = set(re.split(r"[\W_]+", value.lower()))
        if bool(words & _LOWER) == bool(words & _HIGHER):
            self.fail(f"is a lower or a higher {value} better? Give {value}:min or {value}:max.", param, ctx)
        return f"{value}:{'min' if words & _LOWER else 'max'}"


def check_monitor(monitor: Monitor, class_names: tuple[str, ...], best_checkpoint: str | None) -> None:
    """Refuses a metric that the run, or the best checkpoint that it has kept so far, cannot be judged by.

    Args:
      best_checkpoint: path prefix, or None.

    Raises:
      click.ClickException: it is a metric of classes, and the run has none; or the best so far does not tell it.
    """
    metric = monitor.metric
    if metric in OF_CLASSES and not class_names:
        raise click.ClickException(f"--monitor {metric} is computed of classes, and this run has none")
    result = as_path(f"{best_checkpoint}.eval_result.json")
    try:
        values = json.loads(result.read_text()) if best_checkpoint else {metric: None}
    except (OSError, ValueError):  # the exporter says what is wrong with it
        return
    if isinstance(values, dict) and metric not in values:
        raise click.ClickException(
            f"--monitor {metric}: {result} does not tell it of the best checkpoint so far; give one of "
            f"{', '.join(sorted(set(values) - {'global_step'}))}, or move {result.parent} to another place"
        )
