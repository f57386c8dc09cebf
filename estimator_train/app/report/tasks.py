"""The modules that compute and format metrics, labels and predictions according to the task of a model.

Each has the same names: `KIND`, the kind of label; `checked`, which brings labels and outputs into the form that the
others take; `result`, the metrics; `table`, which formats them for a terminal; `truth` and `prediction`, an example's
label and output in readable form; and `worst`, the wrong examples.
"""

from __future__ import annotations

from types import ModuleType

from estimator_train.app.report import classification, multilabel, regression

Result = classification.Classification | multilabel.Multilabel | regression.Regression

_MODULES = {"classification": classification, "multilabel": multilabel, "regression": regression}


def named(task: str) -> ModuleType:
    """Returns the module of a task.

    >>> named("multilabel").KIND
    'labels'
    """
    return _MODULES[task]


def short(value: str | float) -> str:
    """Formats the result of `truth` or `prediction` for a caption."""
    return f"{value:.4g}" if isinstance(value, float) else value or "none"
