"""Writes the report of a run: one self-contained HTML file, and its plots as PNG files."""

import base64
import collections
import functools
import html
import io
import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import matplotlib
import numpy as np
from PIL import Image

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.models.defaults import with_defaults
from estimator_train.app.report import plots
from estimator_train.app.runs.evaluations import curve_of
from estimator_train.app.runs.stored_run import StoredRun

_RATES = ("global_step/sec", "examples/sec", "input_wait_share", "learning_rate")  # other scalars are metrics
_NAMED_BY_FOLDER = ("images", "manifest", "npz", "tfrecord")  # datasets of the user's own
_MAIN = (
    ("classification", "accuracy", lambda share: f"{100 * share:.1f} % accuracy"),
    ("multilabel", "macro_f1", lambda score: f"macro F1 {score:.3f}"),
    ("regression", "r2", lambda score: f"R² {score:.3f}"),
)
_THUMBNAIL = 320  # pixels of the longer side


class Mistake(NamedTuple):
    """An example that a model got wrong. Multi-label and regression examples have no probabilities."""

    image: Image.Image
    name: str
    true_class: str
    true_probability: float | None
    predicted_class: str
    predicted_probability: float | None
    heat: np.ndarray | None = None  # `grad_cam` of the predicted class


class ReportPath(str):
    """The path of a report, which a notebook shows as the report itself, in a frame."""

    def _repr_html_(self) -> str:
        page = html.escape(as_path(self).read_text())
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40rem; border: 0"></iframe>'


def write_report(
    model_dir: StrPath,
    mistakes: Sequence[Mistake] | None = None,
    numbers: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    note: str | None = None,
    last: Mapping[str, Any] | None = None,
    batch: Sequence[tuple[Image.Image, str]] = (),
) -> ReportPath:
    """Writes report/report.html and its plots to `model_dir`, and returns the path of report.html.

    Everything else is that of the `StoredRun`, whose errors it raises; metrics are those of the training's result. The
    report says what the run lacks. As the last line of a notebook's cell, the call shows the report below the cell.

        path = write_report("runs/oct2017")

    Args:
      mistakes: a list of `Mistake` of the last evaluation, worst first; None if they cannot be shown.
      numbers: the labels and predictions of a regression, each of shape (examples,), for a plot.
      note: a sentence about the mistakes.
      last: an entry of evaluations.jsonl to show instead of the training's result.
      batch: (image, label) of some training examples, as the model sees them.
    """
    run = StoredRun(model_dir)
    last = last or run.result
    classes = last and last.get("classification")
    figures = _figures(run, classes, numbers)
    page = template("report.html").render(
        name=as_path(model_dir).resolve().name,
        title=_title(run.settings, last or {}),
        written=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        run=_with_defaults(run),
        last=last,
        classes=classes,
        labels=last and last.get("multilabel"),
        regression=last and last.get("regression"),
        timing=run.timing,
        figures=figures,
        scaling=run.scaling,
        mistakes=mistakes,
        note=note,
        batch=batch,
    )
    directory = as_path(model_dir, "report")
    directory.mkdir(exist_ok=True)
    for figure in sum(figures.values(), []):
        file_name = re.sub(r"\W+", "_", figure.name)
        write_whole(directory / f"{file_name}.png", figure.png)
    write_whole(directory / "report.html", page)
    return ReportPath(directory / "report.html")


def _with_defaults(run):
    """Returns the content of run.json, whose settings and training have the model's own values where none are given."""
    filled = with_defaults(run.settings | run.training)
    parts = {"settings": run.settings, "training": run.training}
    return run.about | {part: {name: filled[name] for name in given} for part, given in parts.items()}


def _title(settings, last):
    parts = []
    if settings.get("model"):
        source = settings.get("dataset") or settings.get("input_fn")
        if source in _NAMED_BY_FOLDER and settings.get("data_dir"):
            source = as_path(settings["data_dir"]).name
        parts.append(f"{source}, {settings['model']}")
    for task, name, form in _MAIN:
        value = (last.get(task) or {}).get(name)
        if value is not None:
            parts.append(form(value))
    return ": ".join(parts)


class Figure(NamedTuple):
    """A plot of a page."""

    name: str
    alt: str
    png: bytes


def _figures(run, classes, numbers):
    training = _by_name(run.summaries)
    figures = {
        "metrics": _metrics(run),
        "rates": _rates(training),
        "scaling": _scaling(run.scaling),
        "classes": _of_classes(classes),
        "numbers": _numbers(numbers),
    }
    return {group: list(drawn) for group, drawn in figures.items()}


def _metrics(run):
    """Yields a figure for each of the model's own metrics, with the loss first, and for the monitored one."""
    monitored, _, _ = str(run.training.get("monitor") or "").rpartition(":")
    computed = {name for entry in run.evaluations for task, _, _ in _MAIN for name in entry.get(task, {})}
    hidden = computed - {"accuracy", monitored}
    phase_ends, best_step = run.phase_ends, run.best_step
    for name, sides in curves_of(run).items():
        if name in hidden and not sides["training"]:
            continue
        ends = [f"{side} ends at {list(points.values())[-1]:.4g}" for side, points in sides.items() if points]
        alt = f"{name} over the global steps: {', '.join(ends)}."
        if best_step in sides["evaluation"]:
            alt += f" The best checkpoint is at {best_step}."
        yield Figure(name, alt, plots.curves(name, *sides.values(), phase_ends, best_step))


def curves_of(run: StoredRun) -> dict[str, dict[str, dict[int, float]]]:
    """Returns {metric: {"training": {step: value}, "evaluation": {step: value}}} of a run, with the loss first."""
    training = _by_name(run.summaries)
    evaluated = _by_name({entry["step"]: entry["metrics"] for entry in curve_of(run.evaluations)})
    names = [name for name in dict.fromkeys(["loss", *training, *evaluated]) if name not in _RATES]
    sides = {name: {"training": training.get(name, {}), "evaluation": evaluated.get(name, {})} for name in names}
    return {name: both for name, both in sides.items() if any(both.values())}


def _rates(training):
    rates, examples, waits = (training[name] for name in ("learning_rate", "examples/sec", "input_wait_share"))
    if rates:
        alt = f"The learning rate over the global steps, ending at {list(rates.values())[-1]:.4g}."
        yield Figure("learning_rate", alt, plots.learning_rate(rates))
    if examples:
        mean = f"{sum(examples.values()) / len(examples):.4g} on average"
        alt = f"Examples per second over the global steps, {mean}, and the share of time waiting for input."
        yield Figure("throughput", alt, plots.throughput(examples, waits))


def _scaling(rows):
    if len(rows) > 1:
        fastest = f"{rows[-1]['speed_up']:.2f} times as fast on {rows[-1]['replicas']}"
        alt = f"Examples per second and time over the replicas: {fastest}."
        yield Figure("scaling", alt, plots.scaling(rows))


def _of_classes(classes):
    if classes:
        matrix = classes["confusion_matrix"]
        right = sum(matrix[index][index] for index in range(len(matrix)))
        alt = f"Confusion matrix: {right} of {classes['examples']} examples are on the diagonal, predicted correctly."
        yield Figure("confusion_matrix", alt, plots.confusion_matrix(list(classes["classes"]), matrix))
    if classes and classes["calibration"]:
        alt = f"Reliability diagram: the expected calibration error is {classes['calibration_error']:.4f}."
        yield Figure("reliability", alt, plots.reliability(classes["calibration"]))


def _numbers(numbers):
    if numbers:
        labels, predictions = numbers
        alt = f"Predicted versus true values of {len(labels)} examples; they are equal on the line."
        yield Figure("predictions", alt, plots.scatter(labels, predictions))


def _by_name(by_step):
    """Converts {step: {name: value}} to {name: {step: value}}, keeping only finite scalars."""
    by_name = collections.defaultdict(dict)
    for step, values in sorted(by_step.items()):
        for name, value in values.items():
            if isinstance(value, float) and math.isfinite(value):
                by_name[name][step] = value
    return by_name


@functools.cache
def template(name: str) -> jinja2.Template:
    """Returns a template in this directory."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__name__, "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "png_uri": lambda png: _data_uri(png, "png"),
        "thumbnail_uri": _thumbnail_uri,
        "heat_uri": _heat_uri,
    }
    return environment.get_template(name)


def _thumbnail_uri(image):
    image = image.convert("RGB")  # a copy
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    file = io.BytesIO()
    image.save(file, "jpeg", quality=85)
    return _data_uri(file.getvalue(), "jpeg")


def _heat_uri(mistake):
    """Returns the image, with the evidence for the predicted class in warm colors."""
    image = mistake.image.convert("RGB")
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    heat = Image.fromarray((255 * mistake.heat).astype("uint8")).resize(image.size, Image.Resampling.BICUBIC)
    colors = Image.fromarray((255 * matplotlib.colormaps["turbo"](np.asarray(heat))[..., :3]).astype("uint8"))
    return _thumbnail_uri(Image.blend(image, colors, 0.45))


def _data_uri(content, kind):
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
