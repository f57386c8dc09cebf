"""thresholds.json in the directory of a run: the probability from which each of several labels is predicted."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.metrics.multilabel import THRESHOLD

NAME = "thresholds.json"
CRITERION = "F1"


class Thresholds(NamedTuple):
    """The thresholds of a run's labels, in their order, and what chose them."""

    values: dict[str, float]
    checkpoint: str  # its name, without the directory
    images: str  # "validation", or "evaluation" if the run has no validation images
    examples: int  # how many images these are
    fingerprint: str | None = None  # of the checkpoint: a run that was set back saves another one of its name


def choose(names: Sequence[str], labels: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
    """Returns the threshold of each label that gives it the highest F1 on some examples.

        >>> choose(["cat"], np.array([[1], [1], [0]]), np.array([[0.4], [0.3], [0.1]]))
        {'cat': 0.2}

    The mean of the labels' F1 is highest if each is, so each label has a threshold of its own: Lipton, Elkan and
    Narayanaswamy, "Thresholding Classifiers to Maximize F1 Score" (2014), https://arxiv.org/abs/1402.1892. Examples
    should be neither those of the training nor those of the final evaluation, for which the thresholds fit too well.

    A threshold lies in the middle between two probabilities, because another batch size or device changes their last
    digits. Of several with the same F1, the one closest to 0.5 is chosen. A label without examples keeps 0.5. `labels`
    are 0 or 1, and `outputs` probabilities, both of shape (examples, labels).
    """
    return {
        name: _best(is_label, scores) for name, is_label, scores in zip(names, labels.T > 0.5, outputs.T, strict=True)
    }


def _best(is_label, scores):
    from sklearn import metrics  # takes a second

    if not is_label.any():
        return THRESHOLD
    precision, recall, least = metrics.precision_recall_curve(is_label, scores)
    precision, recall = precision[:-1], recall[:-1]  # the last point has no threshold
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    middles = (np.concatenate([[0.0], least[:-1]]) + least) / 2
    best = middles[np.isclose(f1, f1.max())]
    return float(best[np.abs(best - THRESHOLD).argmin()])


def write(model_dir: StrPath, thresholds: Thresholds) -> None:
    """Replaces the thresholds of the run in `model_dir`."""
    about = {"criterion": CRITERION, **thresholds._asdict()}
    write_whole(as_path(model_dir, NAME), json.dumps(about, indent=2) + "\n")


def read(model_dir: StrPath, names: Sequence[str]) -> Thresholds | None:
    """Returns the thresholds of the run in `model_dir`, or None if none were chosen.

    Raises ValueError if the file cannot be read, or is not that of a run with the labels `names`.
    """
    path = as_path(model_dir, NAME)
    if not path.exists():
        return None
    try:
        about = {"fingerprint": None} | json.loads(path.read_text())
        read = Thresholds(**{field: about[field] for field in Thresholds._fields})
        values = {name: float(read.values[name]) for name in names}
        if not all(0 <= value <= 1 for value in values.values()):
            raise ValueError("a threshold is not between 0 and 1")
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}; choose thresholds again, or delete it") from error
    return read._replace(values=values)
