"""Compares runs: their settings, their metrics, and the examples that one gets right and another wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tabulate

_WIDTH = 24  # of a value on a terminal
_OF_CLASSES = {"accuracy": "accuracy", "macro F1": "macro_f1", "ROC AUC": "macro_roc_auc"}
_OF_A_CLASS = {"precision": "precision", "recall": "recall", "F1": "f1", "ROC AUC": "roc_auc"}


class Prediction(NamedTuple):
    """An example's class, and the most probable one by the model."""

    true_class: str
    predicted_class: str
    probability: str  # of the predicted class

    @property
    def is_right(self) -> bool:
        return self.predicted_class == self.true_class


class Run(NamedTuple):
    """A run to compare.

    Attributes:
      name: what it is called in tables.
      facts: its settings and circumstances by name.
      evaluation: the last entry of its evaluations.jsonl, or None.
      curves: the values over the global steps, {name: {step: value}}.
      predictions: those of its last evaluation by example, or None where they are not known.
    """

    name: str
    facts: Mapping[str, Any]
    evaluation: Mapping[str, Any] | None
    curves: Mapping[str, Mapping[int, float]]
    predictions: Mapping[str, Prediction] | None

    @property
    def classes(self) -> Mapping[str, Any] | None:
        """The classification of the last evaluation, or None."""
        return self.evaluation and self.evaluation.get("classification")


class Changes(NamedTuple):
    """How another run classifies the examples that it shares with the first one.

    Attributes:
      name: the other run's.
      shared: number of examples.
      right_now, wrong_now: {example: (the first run's prediction, the other's)} of those that only the other run, or
        only the first one, got right.
    """

    name: str
    shared: int
    right_now: dict[str, tuple[Prediction, Prediction]]
    wrong_now: dict[str, tuple[Prediction, Prediction]]

    def __str__(self) -> str:
        return (
            f"{self.name}: of {self.shared} examples, {len(self.right_now)} are right that were wrong, and "
            f"{len(self.wrong_now)} are wrong that were right"
        )


def differing_facts(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Returns {name: value of each run} of the facts in which the runs differ."""
    names = dict.fromkeys(name for run in runs for name in run.facts)
    values = {name: [_text(run.facts.get(name)) for run in runs] for name in names}
    return {name: texts for name, texts in values.items() if len(set(texts)) > 1}


def numbers(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Returns {name: value of each run} of the numbers of their last evaluations."""
    rows = {"checkpoint": [str(run.evaluation["checkpoint"]) if run.evaluation else "n/a" for run in runs]}
    for label, name in _OF_CLASSES.items():
        rows[label] = [_digits((run.classes or {}).get(name)) for run in runs]
    metrics = [dict(run.evaluation["metrics"]) if run.evaluation else {} for run in runs]
    for name in dict.fromkeys(name for values in metrics for name in values):
        if name not in _OF_CLASSES and not any(isinstance(values.get(name), list) for values in metrics):
            rows[name] = [_digits(values.get(name)) for values in metrics]
    return {name: texts for name, texts in rows.items() if set(texts) != {"n/a"}}


def class_numbers(runs: Sequence[Run]) -> dict[str, dict[str, list[str]]]:
    """Returns {class: {number: value of each run}}; nothing where a run has no numbers of classes."""
    if not all(run.classes for run in runs):
        return {}
    of_runs = [run.classes["classes"] for run in runs if run.classes]
    return {
        name: {label: [_digits(of.get(name, {}).get(key)) for of in of_runs] for label, key in _OF_A_CLASS.items()}
        for name in of_runs[0]
    }


def changes(runs: Sequence[Run]) -> list[Changes]:
    """Returns the `Changes` from the first run to each other one, as far as their predictions are known."""
    first, *others = runs
    return [_changes(first.predictions, other) for other in others if first.predictions and other.predictions]


def table(runs: Sequence[Run]) -> str:
    """Returns the lines that compare runs on a terminal."""
    names = [_end_of(run.name) for run in runs]
    f1 = {name: values["F1"] for name, values in class_numbers(runs).items()}
    tables = [("last evaluation", numbers(runs)), ("F1", f1), ("setting", differing_facts(runs))]
    texts = [_table(head, names, rows) for head, rows in tables if rows]
    return "\n\n".join([*texts, *map(str, changes(runs))])


def _changes(before, other):
    shared = {name: (before[name], other.predictions[name]) for name in before if name in other.predictions}
    return Changes(
        other.name,
        len(shared),
        {name: pair for name, pair in shared.items() if not pair[0].is_right and pair[1].is_right},
        {name: pair for name, pair in shared.items() if pair[0].is_right and not pair[1].is_right},
    )


def _table(head, names, rows):
    cells = [[name, *map(_start_of, row)] for name, row in rows.items()]
    return tabulate.tabulate(cells, [head, *names], disable_numparse=True, colalign=["left"] + ["right"] * len(names))


def _start_of(text):
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def _end_of(name):
    return name if len(name) <= _WIDTH else f"...{name[3 - _WIDTH :]}"


def _digits(value):
    return "n/a" if value is None else f"{value:.4f}"


def _text(value):
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value)
