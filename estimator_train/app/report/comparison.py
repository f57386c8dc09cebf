"""Compares runs: their settings, metrics, and the examples that one run gets right and another wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tabulate
from scipy import stats

from estimator_train._engine.host.html_table import html_table
from estimator_train.app.metrics.class_metrics import digits, shortened
from estimator_train.app.runs.predictions_file import Prediction

_DRAWN = 10_000  # samples of a bootstrap
_WIDTH = 24  # columns of a value on a terminal
_METRICS = {"accuracy": "accuracy", "macro F1": "macro_f1", "ROC AUC": "macro_roc_auc"}
_CLASS_METRICS = {"precision": "precision", "recall": "recall", "F1": "f1", "ROC AUC": "roc_auc"}


class Run(NamedTuple):
    """A run to compare.

    Attributes:
      name: name in tables.
      facts: settings and circumstances, keyed by name.
      evaluation: the entry of evaluations.jsonl with the result of the training, or None.
      curves: metrics over global steps, {name: {step: value}}.
      predictions: predictions of the last evaluation, keyed by example, or None if unknown.
      costs: what the run needs, such as its number of weights, keyed by name.
    """

    name: str
    facts: Mapping[str, Any]
    evaluation: Mapping[str, Any] | None
    curves: Mapping[str, Mapping[int, float]]
    predictions: Mapping[str, Prediction] | None
    costs: Mapping[str, Any] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"<run {self.name}>"

    def _repr_html_(self) -> str:
        metrics = {name: values[0] for name, values in numbers([self]).items()}
        return html_table(self.name, metrics | {name: _text(value) for name, value in self.facts.items() if value})

    @property
    def classes(self) -> Mapping[str, Any] | None:
        """The classification of the last evaluation, or None."""
        return self.evaluation and self.evaluation.get("classification")


class Changes(NamedTuple):
    """How another run classifies the examples that it shares with the first run.

    Attributes:
      name: name of the other run.
      shared: number of shared examples, which have the same name and the same true class.
      right_now: {example: (first run's prediction, other run's)} of the examples that only the other run got right.
      wrong_now: likewise, of the examples that only the first run got right.
    """

    name: str
    shared: int
    right_now: dict[str, tuple[Prediction, Prediction]]
    wrong_now: dict[str, tuple[Prediction, Prediction]]

    @property
    def difference(self) -> float:
        """The other run's accuracy on the shared examples minus the first run's."""
        return (len(self.right_now) - len(self.wrong_now)) / max(self.shared, 1)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of `difference`, from pairs: both runs' results of an example are drawn together.

        Drawing `shared` pairs with replacement is drawing the numbers of the two kinds of changes.
        """
        right, wrong = len(self.right_now), len(self.wrong_now)
        if not self.shared:
            return 0.0, 0.0
        shares = np.array([right, wrong, self.shared - right - wrong]) / self.shared
        drawn = stats.multinomial(self.shared, shares, seed=0).rvs(_DRAWN)
        low, high = np.quantile((drawn[:, 0] - drawn[:, 1]) / self.shared, [0.025, 0.975])
        return float(low), float(high)

    @property
    def p_value(self) -> float:
        """McNemar's exact test: how likely runs of equal accuracy differ at least as much. 1 without any change."""
        right, wrong = len(self.right_now), len(self.wrong_now)
        return float(stats.binomtest(right, right + wrong).pvalue) if right + wrong else 1.0

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.name}: of {self.shared} shared examples, {len(self.right_now)} changed from wrong to right and "
            f"{len(self.wrong_now)} from right to wrong; accuracy {100 * self.difference:+.1f} points, 95 % interval "
            f"{100 * low:+.1f} to {100 * high:+.1f}, McNemar's p {_p(self.p_value)}"
        )


def differing_facts(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Returns {name: list of each run's value} of the facts in which the runs differ.

    >>> first = Run("a", {"seed": 1, "model": "vgg16"}, None, {}, None)
    >>> second = Run("b", {"seed": 2, "model": "vgg16"}, None, {}, None)
    >>> differing_facts([first, second])
    {'seed': ['1', '2']}
    """
    names = dict.fromkeys(name for run in runs for name in run.facts)
    values = {name: [_text(run.facts.get(name)) for run in runs] for name in names}
    return {name: texts for name, texts in values.items() if len(set(texts)) > 1}


def numbers(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Returns {name: list of each run's value} of the metrics of their last evaluations."""
    evaluations = [run.evaluation or {"checkpoint": "n/a", "metrics": {}} for run in runs]
    rows = {"checkpoint": [str(evaluation["checkpoint"]) for evaluation in evaluations]}
    metrics = [evaluation["metrics"] for evaluation in evaluations]
    for label, name in _METRICS.items():
        values = [{**own, **(run.classes or {})}.get(name) for own, run in zip(metrics, runs, strict=True)]
        rows[label] = list(map(digits, values))
    for name in dict.fromkeys(name for values in metrics for name in values):
        values = [each.get(name) for each in metrics]
        if name not in (*_METRICS, *_METRICS.values()) and not any(isinstance(value, list) for value in values):
            rows[name] = list(map(digits, values))
    return {name: texts for name, texts in rows.items() if set(texts) != {"n/a"}}


def costs(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Returns {name: list of each run's value} of what the runs need: weights, and seconds.

    >>> costs([Run("a", {}, None, {}, None, {"weights": 1234567}), Run("b", {}, None, {}, None)])
    {'weights': ['1,234,567', 'n/a']}
    """
    names = dict.fromkeys(name for run in runs for name in run.costs)
    return {name: [_number(run.costs.get(name)) for run in runs] for name in names}


def class_numbers(runs: Sequence[Run]) -> dict[str, dict[str, list[str]]]:
    """Returns {class: {metric: list of each run's value}}; empty if a run has no metrics per class."""
    if not all(run.classes for run in runs):
        return {}
    tables = [run.classes["classes"] for run in runs if run.classes]
    return {
        name: {
            label: [digits(classes.get(name, {}).get(key)) for classes in tables]
            for label, key in _CLASS_METRICS.items()
        }
        for name in tables[0]
    }


def changes(runs: Sequence[Run]) -> list[Changes]:
    """Returns the `Changes` from the first run to each other run whose predictions are known and can be paired."""
    first, *others = runs
    return [
        _changes(first.predictions, other)
        for other in others
        if first.predictions and other.predictions and can_be_paired(first, other)
    ]


def can_be_paired(first: Run, other: Run) -> bool:
    """Returns whether examples of one name are the same in both runs; numbers are, only if the data is the same.

    >>> first = Run("a", {"limit": 100, "seed": 1}, None, {}, {"0": Prediction("cat", "cat", "0.9")})
    >>> can_be_paired(first, first._replace(facts={"limit": 100, "seed": 2}))
    False
    """
    names = [*(first.predictions or ()), *(other.predictions or ())]
    return not all(map(str.isdecimal, names)) or _data(first.facts) == _data(other.facts)


def table(runs: Sequence[Run]) -> str:
    """Formats the comparison of runs for a terminal."""
    names = [_end_of(run.name) for run in runs]
    f1 = {name: values["F1"] for name, values in class_numbers(runs).items()}
    tables = [("last evaluation", numbers(runs)), ("cost", costs(runs)), ("F1", f1), ("setting", differing_facts(runs))]
    texts = [_table(head, names, rows) for head, rows in tables if rows]
    return "\n\n".join([*texts, *map(str, changes(runs))])


def _data(facts):
    """Returns the settings that decide which evaluation examples a run has; with a limit, the seed chooses them."""
    chosen = facts.get("limit") and (facts["limit"], facts.get("seed") or 0)
    return [facts.get(name) for name in ("dataset", "data_dir", "split", "eval_input_fn")] + [chosen]


def _changes(before, other):
    both = {name: (before[name], other.predictions[name]) for name in before if name in other.predictions}
    shared = {name: pair for name, pair in both.items() if pair[0].true_class == pair[1].true_class}
    return Changes(
        other.name,
        len(shared),
        {name: pair for name, pair in shared.items() if not pair[0].is_right and pair[1].is_right},
        {name: pair for name, pair in shared.items() if pair[0].is_right and not pair[1].is_right},
    )


def _table(head, names, rows):
    cells = [[name, *(shortened(text, _WIDTH) for text in row)] for name, row in rows.items()]
    return tabulate.tabulate(cells, [head, *names], disable_numparse=True, colalign=["left"] + ["right"] * len(names))


def _end_of(name):
    return name if len(name) <= _WIDTH else f"...{name[3 - _WIDTH :]}"


def _number(value):
    if value is None:
        return "n/a"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _p(value):
    return "below 0.0001" if value < 0.0001 else digits(value)


def _text(value):
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    return json.dumps(value)
