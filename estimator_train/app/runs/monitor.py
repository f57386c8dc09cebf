"""The metric used for early stopping and the best checkpoint, and whether lower or higher is better."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from estimator_train._engine.host.files import quoted
from estimator_train.app.errors import SettingError
from estimator_train.app.runs.checkpoints import metrics_of_best

# Fields of the result of each task, see `metrics.tasks`, that evaluations add to the model's own metrics.
_OF_CLASSES = ("macro_precision", "macro_recall", "macro_f1", "macro_roc_auc", "macro_pr_auc")
METRICS = {
    "classification": (*_OF_CLASSES, "balanced_accuracy", "cohen_kappa", "calibration_error"),
    "multilabel": (*_OF_CLASSES, "exact_match"),
    "regression": ("mean_absolute_error", "root_mean_squared_error", "r2"),
}

_OF_MODELS = {"classification": "accuracy", "multilabel": "binary_accuracy", "regression": "mean_absolute_error"}

# Words that occur in the names of common metrics, including Keras' own.
_LOWER = {"loss", "error", "crossentropy", "mse", "mae", "mape", "msle", "rmse", "logcosh", "hinge", "perplexity"}
_HIGHER = {"accuracy", "acc", "auc", "precision", "recall", "sensitivity", "specificity", "f1", "dice", "iou", "kappa"}
_HIGHER |= {"match", "r2"}


def metrics_of(task: str) -> tuple[str, ...]:
    """Returns the names of the metrics that the package's own models have in an evaluation.

    >>> metrics_of("multilabel")[:2]
    ('loss', 'binary_accuracy')
    """
    return tuple(dict.fromkeys(("loss", _OF_MODELS[task], *METRICS[task])))


class Monitor(NamedTuple):
    """A metric's name in evaluation results, and whether to minimize or maximize it, "min" or "max"."""

    metric: str
    direction: str

    @classmethod
    def of(cls, text: str | None) -> Monitor:
        """Parses a checked value of the setting monitor; None means the loss.

        >>> Monitor.of("macro_f1:max").better
        'higher'
        """
        metric, _, direction = (text or "loss:min").rpartition(":")
        return cls(metric, direction)

    @property
    def better(self) -> str:
        return "lower" if self.direction == "min" else "higher"

    @classmethod
    def named(cls, text: str) -> Monitor:
        """Returns METRIC:min, METRIC:max, or METRIC in its usual direction; raises ValueError if it has none."""
        text = text.removeprefix("val_")  # Keras' prefix of validation metrics
        metric, colon, direction = text.rpartition(":")
        if metric and direction in ("min", "max"):
            return cls(metric, direction)
        if colon:
            raise ValueError(f"{text!r} ends in neither :min nor :max, such as accuracy:max")
        words = set(re.split(r"[\W_]+", text.lower()))
        is_lower, is_higher = bool(words & _LOWER), bool(words & _HIGHER)
        if is_lower == is_higher:
            raise ValueError(f"is a lower or a higher {text} better? Give {text}:min or {text}:max")
        if is_lower:
            return cls(text, "min")
        return cls(text, "max")

    def check_name(self, task: str) -> None:
        """Raises ValueError for a metric that the package's own models do not have for a task.

        >>> Monitor.of("macro_f1:max").check_name("classification")
        """
        if self.metric not in (names := metrics_of(task)):
            text = "{monitor} {0}: there is no such metric; give one of {1}"
            raise SettingError(text, self.metric, ", ".join(names))

    def check(self, class_names: tuple[str, ...], best_checkpoint: str | None) -> None:
        """Raises ValueError if the metric needs classes and there are none, or the best checkpoint so far lacks it."""
        if self.metric in _OF_CLASSES and not class_names:
            raise SettingError("{monitor} {0} is computed from classes, and this run has none", self.metric)
        if best_checkpoint is None:
            return
        values = metrics_of_best(best_checkpoint)
        if values and self.metric not in values:  # the exporter reports what is wrong with a damaged file
            others, folder = sorted(set(values) - {"global_step"}), os.path.dirname(best_checkpoint)
            raise SettingError(
                "{monitor} {0}: {1}.eval_result.json does not have it for the best checkpoint so far; give one of {2}, "
                "or move {3} elsewhere",
                *(self.metric, best_checkpoint, quoted(others), folder),
            )
