"""Compares runs: their settings, metrics, and the examples that one run gets right and another wrong."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tabulate
from scipy import stats

from estimator_train._engine.host.html_table import html_table
from estimator_train.app.metrics.class_metrics import SHOWN, digits, shortened
from estimator_train.app.runs.parsed_json import NUMBER
from estimator_train.app.runs.predictions_file import Prediction

_DRAWN = 10_000  # samples of a bootstrap
_WIDTH = 24  # columns of a value on a terminal
_SIGNIFICANT = 0.05  # the p-value below which a run is better or worse
COSTS = ".4g"  # the format of seconds and rates, in `with_differences`
_METRICS = {
    "accuracy": "accuracy",
    "macro F1": "macro_f1",
    "ROC AUC": "macro_roc_auc",
    "PR AUC": "macro_pr_auc",
    "Cohen's kappa": "cohen_kappa",
}


class ComparedRun(NamedTuple):
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
        metrics = {name: text for name, (text,) in with_differences(numbers([self])).items()}
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

    @property
    def verdict(self) -> str:
        """Says whether the other run is better than the first one, which McNemar's test decides.

        >>> Changes("b", 100, {}, {}).verdict.partition(":")[0]
        'b is neither better nor worse than the first run'
        """
        word = "neither better nor worse"
        if self.p_value < _SIGNIFICANT:
            word = "better" if self.difference > 0 else "worse"
        return (
            f"{self.name} is {word} than the first run: accuracy {100 * self.difference:+.1f} points, "
            f"McNemar's p {_p(self.p_value)} (below {_SIGNIFICANT} decides)"
        )

    def __str__(self) -> str:
        if not self.shared:
            return f"{self.name} shares no examples with the first run, so their images are not compared"
        low, high = self.interval
        return (
            f"{self.name}: of {self.shared} shared examples, {len(self.right_now)} changed from wrong to right and "
            f"{len(self.wrong_now)} from right to wrong; the 95 % interval of the difference in accuracy is "
            f"{100 * low:+.1f} to {100 * high:+.1f} points"
        )


def differing_facts(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """Returns {name: list of each run's value} of the facts in which the runs differ.

    >>> first = ComparedRun("a", {"seed": 1, "model": "vgg16"}, None, {}, None)
    >>> second = ComparedRun("b", {"seed": 2, "model": "vgg16"}, None, {}, None)
    >>> differing_facts([first, second])
    {'seed': ['1', '2']}
    """
    names = dict.fromkeys(name for run in runs for name in run.facts)
    values = {name: [_text(run.facts.get(name)) for run in runs] for name in names}
    return {name: texts for name, texts in values.items() if len(set(texts)) > 1}


def numbers(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """Returns {name: list of each run's value, or None} of the metrics of their last evaluations."""
    evaluations: list[Mapping[str, Any]] = [run.evaluation or {"metrics": {}} for run in runs]
    rows = {"checkpoint": [evaluation.get("checkpoint") for evaluation in evaluations]}
    metrics = [evaluation["metrics"] for evaluation in evaluations]
    for label, name in _METRICS.items():
        rows[label] = [{**own, **(run.classes or {})}.get(name) for own, run in zip(metrics, runs, strict=True)]
    for name in dict.fromkeys(name for values in metrics for name in values):
        values = [each.get(name) for each in metrics]
        if name not in (*_METRICS, *_METRICS.values()) and not any(isinstance(value, list) for value in values):
            rows[name] = values
    return {name: values for name, values in rows.items() if any(value is not None for value in values)}


def costs(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """Returns {name: list of each run's value, or None} of what the runs need: weights, and seconds.

    >>> costs([ComparedRun("a", {}, None, {}, None, {"weights": 1234567}), ComparedRun("b", {}, None, {}, None)])
    {'weights': [1234567, None]}
    """
    names = dict.fromkeys(name for run in runs for name in run.costs)
    return {name: [run.costs.get(name) for run in runs] for name in names}


def class_numbers(runs: Sequence[ComparedRun]) -> dict[str, dict[str, list[Any]]]:
    """Returns {class: {metric: list of each run's value, or None}}; empty if a run has no metrics per class."""
    if not all(run.classes for run in runs):
        return {}
    tables = [run.classes["classes"] for run in runs if run.classes]
    return {
        name: {label: [classes.get(name, {}).get(key) for classes in tables] for key, label in SHOWN.items()}
        for name in tables[0]
    }


def changes(runs: Sequence[ComparedRun]) -> list[Changes]:
    """Returns the `Changes` from the first run to each other run whose predictions are known and can be paired."""
    first, *others = runs
    return [
        _changes(first.predictions, other)
        for other in others
        if first.predictions and other.predictions and can_be_paired(first, other)
    ]


def can_be_paired(first: ComparedRun, other: ComparedRun) -> bool:
    """Returns whether examples of one name are the same in both runs; numbers are, only if the data is the same.

    >>> first = ComparedRun("a", {"limit": 100, "seed": 1}, None, {}, {"0": Prediction("cat", "cat", "0.9")})
    >>> can_be_paired(first, first._replace(facts={"limit": 100, "seed": 2}))
    False
    """
    names = [*(first.predictions or ()), *(other.predictions or ())]
    return not all(map(str.isdecimal, names)) or _data(first.facts) == _data(other.facts)


def table(runs: Sequence[ComparedRun]) -> str:
    """Formats the comparison of runs for a terminal."""
    names = [_end_of(run.name) for run in runs]
    f1 = {name: values["F1"] for name, values in class_numbers(runs).items()}
    measured = {"last evaluation": with_differences(numbers(runs)), "cost": with_differences(costs(runs), COSTS)}
    measured["F1"] = with_differences(f1)
    texts = [_table(head, columns(names), rows) for head, rows in measured.items() if rows]
    if facts := differing_facts(runs):
        texts.append(_table("setting", names, facts))
    changed = changes(runs)
    verdicts = "\n".join(change.verdict for change in changed if change.shared)
    return "\n\n".join([*filter(None, [verdicts]), *texts, *map(str, changed)])


def columns(names: Sequence[str]) -> list[str]:
    """Returns the heads of the columns of `with_differences`, for runs of these names."""
    return [*names, "difference"] if len(names) == 2 else [*names]


def with_differences(rows: Mapping[str, list[Any]], form: str = ".4f") -> dict[str, list[str]]:
    """Returns the rows of a table as texts; of two runs with a third column, how much higher the second's number is.

    `form` is the format of numbers that are not whole.

    >>> with_differences({"loss": [0.12344, 0.12336], "weights": [1024, 2048], "checkpoint": ["a", None]})
    {'loss': ['0.1234', '0.1234', '-0.0001'], 'weights': ['1,024', '2,048', '+1,024'], 'checkpoint': ['a', 'n/a', '']}
    """
    texts = {}
    for name, values in rows.items():
        texts[name] = [_shown(value, form) for value in values]
        if len(values) == 2:
            first, second = values
            texts[name].append(_difference(first, second, form))
    return texts


def _difference(first, second, form):
    if isinstance(first, NUMBER) and isinstance(second, NUMBER):
        return _shown(second - first, form, sign="+")
    return ""


def _shown(value, form, sign=""):
    if value is None:
        return "n/a"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        form = ","
    return f"{value:{sign}{form}}"


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


def _p(value):
    return "below 0.0001" if value < 0.0001 else digits(value)


def _text(value):
    if value is None or value == []:
        return "none"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, int) for each in value):
        return "x".join(map(str, value))
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value)
