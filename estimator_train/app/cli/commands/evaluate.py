"""estimator_train evaluate: evaluates checkpoints of a run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from estimator_train.app import datasets
from estimator_train.app.cli import output_format
from estimator_train.app.cli.parameters import Value
from estimator_train.app.cli.run_options import run_options
from estimator_train.app.errors import one_line_errors
from estimator_train.app.running.run import Run
from estimator_train.app.runs.monitor import METRICS
from estimator_train.app.runs.rules import Excludes, check_rules
from estimator_train.app.runs.values import Directory, OneOf, OutputFile

if TYPE_CHECKING:
    from estimator_train.app.metrics.tasks import Result

    _Evaluated: TypeAlias = tuple[dict[str, Any], Result | None]  # an entry of evaluations.jsonl, and its result

_EXAMPLES = """\b
Examples:
  estimator_train evaluate --model-dir runs/oct2017
  estimator_train evaluate --model-dir runs/oct2017 --checkpoint best
  estimator_train evaluate --model-dir runs/oct2017 --all
  estimator_train evaluate --model-dir runs/oct2017 --data-dir scans_of_another_clinic
  estimator_train evaluate --model-dir runs/oct2017 --json --predictions predictions.csv
  estimator_train evaluate --model-dir runs/findings --choose-thresholds
"""


_RULES = (
    Excludes(("all",), name="checkpoint"),
    *output_format.RULES,
    Excludes(("all",), "{predictions} is for a single checkpoint; leave out {all}", "predictions"),
    Excludes(("all",), "{choose_thresholds} is for a single checkpoint; leave out {all}", "choose_thresholds"),
    Excludes(
        ("dataset", "data_dir"),
        "{choose_thresholds} takes the run's own validation images; leave out {other}",
        "choose_thresholds",
    ),
)


@click.command(epilog=_EXAMPLES)
@run_options
@click.option("--all", is_flag=True, help="Rank every checkpoint of the run, best first.")
@output_format.format_options("Write comma-separated values with all digits, one number per row.")
@click.option(
    "--predictions",
    type=Value(OutputFile()),
    help="Write each example's classes and probabilities as comma-separated values.",
)
@click.option(
    "--choose-thresholds",
    is_flag=True,
    help="Choose the probability from which each of several labels is predicted, by its F1 on the validation images, "
    "and keep it with the run.",
)
@click.option("--dataset", type=Value(OneOf(datasets.names)), help="Evaluate on another dataset of the same classes.")
@click.option("--data-dir", type=Value(Directory()), help="Evaluate on the images in a directory or a file.")
def evaluate(**given: Any) -> int:
    """Evaluate the newest checkpoint of a run, or others.

    The data and the model are those of the run, unless --data-dir or --dataset names other data: all images of a folder
    of class folders or of a CSV file, those of its test or val part if it has one, or the evaluation images of a
    dataset. --all ranks checkpoints by accuracy (by macro F1 for several labels, by R2 for numbers), then by loss, on
    the validation images if there are any. Every evaluation adds a line to evaluations.jsonl in the directory of the
    run, which reports and compare do not read as the result of the training; a run that you may not write is evaluated,
    too, and a line says that the evaluation is not kept.
    """
    flags = SimpleNamespace(**given)
    check_rules(vars(flags), _RULES)
    run = Run(flags.model_dir, trust_run=flags.trust_run)
    checkpoints = None if flags.all else [flags.checkpoint]
    options = {"choose_thresholds": flags.choose_thresholds, "names_examples": bool(flags.predictions)}
    evaluations = []
    for evaluation in run.evaluations_of(checkpoints, flags.dataset, flags.data_dir, **options):
        if flags.predictions and evaluation.result:
            with one_line_errors():
                evaluation.write_predictions(flags.predictions)
        evaluations.append(evaluation)
    results = sorted(((each.entry, each.result) for each in evaluations), key=_rank)
    entries = [entry for entry, _ in results]
    output_format.write(flags, entries, _rows(results), lambda: _text(results, flags.all))
    lacks_predictions = flags.predictions and any(result is None for _, result in results)
    return int(bool(lacks_predictions))


def _rank(result: _Evaluated) -> list[float]:
    entry, computed = result
    best, loss = entry["metrics"].get("accuracy"), entry["metrics"].get("loss")
    if computed is not None:
        best = next(iter(computed.summary().values()))
    # R2 may be less than 0; NaN is None here
    return [math.inf if value is None else value for value in (best and -best, loss)]


def _summary(entry: Mapping[str, Any], result: Result | None) -> dict[str, Any]:
    """Returns the checkpoint and its scalar metrics, with the most important of those computed from the examples."""
    row = {name: value for name, value in _row(entry, result).items() if not isinstance(value, list)}
    if result is None:
        return row
    return row | result.summary()


def _row(entry: Mapping[str, Any], result: Result | None) -> dict[str, Any]:
    """Returns the checkpoint, its step and the model's own metrics."""
    computed: tuple[str, ...] = ()
    if result is not None:
        computed = METRICS[result.task]
    own = {name: value for name, value in entry["metrics"].items() if name not in computed}
    return {"checkpoint": entry["checkpoint"], "step": entry["step"]} | own


def _text(results: Sequence[_Evaluated], ranks: bool) -> str:
    """Returns a ranking of the results as a table, or the tables of a single one."""
    if ranks:
        return output_format.as_table(_summary(entry, result) for entry, result in results)
    ((entry, result),) = results
    row = output_format.as_table([_row(entry, result)])
    if result is None:
        return row
    from estimator_train.app.metrics import tasks  # NumPy comes with it

    return f"{row}\n\n{tasks.named(result.task).table(result)}"


def _rows(results: Sequence[_Evaluated]) -> Iterator[list[Any]]:
    """Yields the column names, then a row per number."""
    yield ["checkpoint", "step", "metric", "class", "predicted_class", "value"]
    for entry, result in results:
        for row in _numbers(entry["metrics"], result):
            yield [entry["checkpoint"], entry["step"], *row]


def _numbers(metrics: dict[str, Any], result: Result | None) -> Iterator[tuple[str, str | None, str | None, Any]]:
    """Yields (metric, class, predicted class, value) for each metric."""
    values = {}
    if result is not None:
        values = dataclasses.asdict(result)
    classes, matrix = values.pop("classes", {}) | values.pop("labels", {}), values.pop("confusion_matrix", [])
    values.pop("calibration", None)  # a curve
    thresholds = values.pop("thresholds", None) or {}
    if "accuracy_interval" in values:
        values["accuracy_low"], values["accuracy_high"] = values.pop("accuracy_interval")
    for metric, value in (metrics | values).items():
        yield metric, None, None, value
    for name, class_values in classes.items():
        for metric, value in class_values.items():
            yield metric, name, None, value
    for name, value in thresholds.items():
        yield "threshold", name, None, value
    for name, counts in zip(classes, matrix, strict=False):  # only classes have a matrix
        for predicted, count in zip(classes, counts, strict=True):
            yield "confusion", name, predicted, count
