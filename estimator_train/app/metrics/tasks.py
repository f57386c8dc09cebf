"""The modules that compute and format metrics, labels and predictions according to the task of a model.

Each has the same names: `KIND`, the kind of label; `checked`, which brings labels and outputs into the form that the
others take; `result`, the metrics; `table`, which formats them for a terminal; `truth` and `prediction`, an example's
label and output in readable form; and `worst`, the wrong examples. Thresholds are for several labels.
"""

import functools
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace

from estimator_train.app.metrics import classification, multilabel, regression

Result = classification.Classification | multilabel.Multilabel | regression.Regression

_MODULES = {"classification": classification, "multilabel": multilabel, "regression": regression}


def named(task: str, thresholds: Mapping[str, float] | None = None) -> ModuleType | SimpleNamespace:
    """Returns the module of a task, or its functions with the `thresholds` of labels instead of 0.5.

    >>> named("multilabel").KIND
    'labels'
    >>> named("multilabel", {"cat": 0.3, "dog": 0.6}).prediction(["cat", "dog"], np.array([0.4, 0.5]))
    'cat'
    """
    module = _MODULES[task]
    if thresholds is None:
        return module
    changed = ("result", "prediction", "worst")
    functions = {name: functools.partial(getattr(module, name), thresholds=thresholds) for name in changed}
    return SimpleNamespace(**vars(module) | functions)


def short(value: str | float) -> str:
    """Formats the result of `truth` or `prediction` for a caption."""
    return f"{value:.4g}" if isinstance(value, float) else value or "none"
