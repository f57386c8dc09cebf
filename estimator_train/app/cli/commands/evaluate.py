"""estimator_train evaluate: evaluates checkpoints of a run."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import click
import tabulate

from estimator_train.app.cli.checkpoint_flag import checkpoint_option, checkpoint_prefix, model_dir_option
from estimator_train.app.cli.parameters import OutputFile
from estimator_train.app.cli.settings import Settings, open_data
from estimator_train.app.cli.startup import starting_tensorflow
from estimator_train.app.cli.trust import trust_option

_EXAMPLES = """\b
Examples:
  estimator_train evaluate --model-dir runs/oct2017
  estimator_train evaluate --model-dir runs/oct2017 --checkpoint best
  estimator_train evaluate --model-dir runs/oct2017 --all
  estimator_train evaluate --model-dir runs/oct2017 --json --predictions predictions.csv
"""


@click.command(epilog=_EXAMPLES)
@model_dir_option
@checkpoint_option
@trust_option
@click.option("--all", "all_checkpoints", is_flag=True, help="Rank every checkpoint of the run, best first.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON with all digits.")
@click.option("--csv", "as_csv", is_flag=True, help="Write comma-separated values with all digits, one number per row.")
@click.option(
    "--predictions",
    type=OutputFile(),
    metavar="FILE",
    help="Write each example's classes and probabilities as comma-separated values.",
)
def evaluate(model_dir, checkpoint, trust_run, all_checkpoints, as_json, as_csv, predictions):
    """Evaluate the newest checkpoint of a run, or others.

    The data and the model are those of the run. Checkpoints are ranked by accuracy (by macro F1 for several labels, by
    R2 for numbers), then by loss. Every evaluation adds a line to evaluations.jsonl in the directory of the run, and a
    classifier's last one replaces predictions.csv.
    """
    if checkpoint != "latest" and all_checkpoints:
        raise click.ClickException("--checkpoint and --all exclude each other; give one")
    if as_json and as_csv:
        raise click.ClickException("--json and --csv exclude each other; give one")
    if predictions and all_checkpoints:
        raise click.ClickException("--predictions is for a single checkpoint; leave out --all")
    settings = Settings.of_run(model_dir, trust_run)
    checkpoint = checkpoint_prefix(model_dir, checkpoint)
    if predictions and not (settings.class_names or settings.task == "regression"):
        raise click.ClickException(f"--predictions needs classes, and the run in {model_dir} has none")
    if predictions and not Path(predictions).parent.is_dir():
        raise click.ClickException(f"--predictions {predictions}: there is no folder {Path(predictions).parent}")
    data = data_of_run(settings, model_dir) if settings.dataset else None

    with starting_tensorflow():
        from estimator_train.app.cli import evaluation_log, predictions_file
        from estimator_train.app.cli.run import build, evaluation
        from estimator_train.app.report import tasks

    paths = [checkpoint] if checkpoint else build.checkpoint_paths(model_dir, all_checkpoints)
    results = []
    for path, (metrics, labels, outputs) in zip(
        paths, evaluation.evaluate(settings, data, model_dir, paths), strict=True
    ):
        result = None if labels is None else tasks.named(settings.task).result(settings.class_names, labels, outputs)
        results.append((evaluation_log.append(model_dir, path, metrics, result), result))
        if result and settings.task == "classification":
            predictions_file.write(model_dir, data, settings.class_names, labels, outputs)
        if predictions and result:
            predictions_file.write_all(predictions, settings, data, labels, outputs)
    results.sort(key=_rank)
    write = _write_json if as_json else _write_csv if as_csv else _write_ranking if all_checkpoints else _write_tables
    write(results)
    return 1 if predictions and result is None else 0


def data_of_run(settings, model_dir):
    """Opens the dataset of the run and checks that it has the classes of the run's model."""
    data = open_data(
        settings.dataset,
        settings.data_dir,
        limit=settings.limit,
        split=settings.split,
        seed=settings.seed,
        task=settings.task,
    )
    if data.class_names != settings.class_names:
        raise click.ClickException(
            f"the run in {model_dir} knows the classes {', '.join(settings.class_names)}, but "
            f"{settings.data_dir or settings.dataset} has {', '.join(data.class_names)}; evaluate on the same classes"
        )
    return data


def _rank(result):
    entry, of = result
    best = entry["metrics"].get("accuracy") if of is None else next(iter(of.summary().values()))
    loss = entry["metrics"].get("loss")
    return -(best or 0), math.inf if loss is None else loss


def _summary(entry, result):
    """Returns the scalar metrics, including those computed from the examples."""
    metrics = {name: value for name, value in entry["metrics"].items() if not isinstance(value, list)}
    return metrics if result is None else metrics | result.summary()


def _write_ranking(results):
    rows = [{"checkpoint": entry["checkpoint"], "step": entry["step"]} | _summary(entry, of) for entry, of in results]
    click.echo(tabulate.tabulate(rows, headers="keys", floatfmt=".4f", missingval="n/a"))


def _write_tables(results):
    ((entry, result),) = results
    row = {"checkpoint": entry["checkpoint"], "step": entry["step"]} | entry["metrics"]
    click.echo(tabulate.tabulate([row], headers="keys", floatfmt=".4f", missingval="n/a"))
    if result is not None:
        from estimator_train.app.report import tasks  # NumPy comes with it

        click.echo(f"\n{tasks.named(result.task).table(result)}")


def _write_json(results):
    click.echo(json.dumps([entry for entry, _ in results], indent=2))


def _write_csv(results):
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["checkpoint", "step", "metric", "class", "predicted_class", "value"])
    for entry, result in results:
        writer.writerows([entry["checkpoint"], entry["step"], *row] for row in _numbers(entry["metrics"], result))


def _numbers(metrics, result):
    """Yields (metric, class, predicted class, value) for each metric."""
    values = {} if result is None else result.to_json()
    classes, matrix = values.pop("classes", {}) | values.pop("labels", {}), values.pop("confusion_matrix", [])
    values.pop("calibration", None)  # a curve
    if "accuracy_interval" in values:
        values["accuracy_low"], values["accuracy_high"] = values.pop("accuracy_interval")
    for metric, value in (metrics | values).items():
        yield metric, None, None, value
    for name, of_class in classes.items():
        for metric, value in of_class.items():
            yield metric, name, None, value
    for name, counts in zip(classes if matrix else (), matrix, strict=True):
        for predicted, count in zip(classes, counts, strict=True):
            yield "confusion", name, predicted, count
