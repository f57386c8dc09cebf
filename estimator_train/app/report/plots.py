"""Draws the plots of a report; each function returns a PNG file as bytes."""

import contextlib
import io
import itertools

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from estimator_train.app.metrics.class_metrics import shortened

_WIDTH = 4.8  # inches
_DPI = 200
_SMOOTHING = 0.8  # weight of earlier values
_WORTH_SMOOTHING = 20  # fewer values are not smoothed


# The colors of a light page, which inverts plots where it is dark.
PAPER, INK, FAINT = "#ffffff", "#24292f", "#d8dde3"
TRAINING, EVALUATION = "#2468b4", "#c4560f"
_STYLE = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), PAPER),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), FAINT),
    **dict.fromkeys(("axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
    "font.size": 9,
}


def literal(text):
    """Escapes dollar signs, between which matplotlib would typeset mathematics."""
    return text.replace("$", r"\$")


def curves(name, training, evaluation, phase_ends=(), best_step=None):
    """Plots a metric over the steps, given as {step: value} for training, which is smoothed, and for evaluation.

    Dotted lines separate the phases of fine-tuning, and a star marks the evaluation of the best checkpoint.
    """
    with _figure(height=2.7) as figure:
        axes = _over_steps(figure.subplots(), name)
        for step in phase_ends:
            axes.axvline(step, color=INK, linestyle=":", linewidth=1)
        if training:
            _plot_smoothed(axes, training, TRAINING, "training")
        if evaluation:
            _plot(axes, evaluation, EVALUATION, marker="o", label="evaluation")
        if best_step in evaluation:
            place = {"color": EVALUATION, "markeredgecolor": INK, "zorder": 3, "linestyle": "none"}
            axes.plot(best_step, evaluation[best_step], marker="*", markersize=11, label="best checkpoint", **place)
        _scale(axes, [*training.values(), *evaluation.values()])
        axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2)
        return _png(figure)


def compared_curves(name, runs):
    """Plots a metric over the steps for several runs, given as {run: {step: value}}; many values are smoothed."""
    with _figure(height=2.7) as figure:
        axes = _over_steps(figure.subplots(), name)
        for (label, points), color in zip(runs.items(), itertools.cycle(matplotlib.colormaps["tab10"].colors)):
            _plot_smoothed(axes, points, color, literal(label))
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
        return _png(figure)


def learning_rate(rates):
    """Plots the learning rate over the steps, given as {step: value}."""
    with _figure(height=2.7) as figure:
        axes = _over_steps(figure.subplots(), "learning rate")
        _plot(axes, rates, TRAINING)
        _scale(axes, list(rates.values()))
        return _png(figure)


def range_test(test):
    """Plots the loss over the learning rates of a `RangeTest`, with its average, the lowest one and the suggestion."""
    best = np.abs(np.array(test.rates) / 10 - test.suggestion).argmin()
    low, first = min(test.losses), test.averages[0]
    top = first + abs(first) / 2  # losses that diverge would flatten the curve
    with _figure(height=3.2) as figure:
        axes = figure.subplots()
        axes.plot(test.rates, test.losses, color=TRAINING, alpha=0.35)
        axes.plot(test.rates, test.averages, color=TRAINING, label="average of the loss")
        lowest = f"lowest at {test.rates[best]:.1e}"
        axes.scatter(test.rates[best], test.averages[best], color=EVALUATION, label=lowest, zorder=3)
        axes.axvline(test.suggestion, color=EVALUATION, linestyle=":", label=f"suggestion {test.suggestion:.1e}")
        axes.set(xlabel="learning rate", ylabel="loss", xscale="log", ylim=(low - (top - low) / 20, top))
        _plain(axes)
        axes.legend(frameon=False)
        return _png(figure)


def smoothed(points):
    """Returns the exponential moving average of {step: value}, corrected for the bias of the first values.

    >>> smoothed({10: 1.0, 20: 1.0})
    {10: 1.0, 20: 1.0}
    """
    total = weight = 0.0
    averages = {}
    for step, value in points.items():
        total, weight = _SMOOTHING * total + value, _SMOOTHING * weight + 1
        averages[step] = total / weight
    return averages


def reliability(calibration):
    """Plots accuracy over confidence, given as (mean confidence, accuracy, examples) of each bin."""
    confidences, accuracies, counts = map(np.array, zip(*calibration, strict=True))
    with _figure(height=3.6) as figure:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=INK, linestyle=":", linewidth=1, label="calibrated")
        axes.plot(confidences, accuracies, color=TRAINING, linewidth=1)
        areas = 20 + 180 * counts / counts.max()
        axes.scatter(confidences, accuracies, areas, color=TRAINING, label="model, area: examples", zorder=3)
        axes.set(xlabel="probability of the predicted class", ylabel="accuracy")
        axes.set(xlim=(0, 1.02), ylim=(0, 1.05))
        _plain(axes)
        axes.legend(frameon=False, loc="upper left")
        return _png(figure)


def throughput(examples_per_second, input_wait_share):
    """Plots examples per second and, below, the share of time spent waiting for input, each given as {step: value}."""
    with _figure(height=3.6) as figure:
        above, below = figure.subplots(2, sharex=True, height_ratios=[2, 1])
        _over_steps(above, "examples/s").set_xlabel("")
        _plot(above, examples_per_second, TRAINING)
        above.set_ylim(bottom=0)
        _over_steps(below, "input wait")
        below.fill_between(list(input_wait_share), list(input_wait_share.values()), color=EVALUATION, alpha=0.35)
        _plot(below, input_wait_share, EVALUATION)
        below.set_ylim(0, 1)
        below.yaxis.set_major_formatter(PercentFormatter(1))
        return _png(figure)


def scatter(labels, predictions):
    """Plots predicted over true values, one point per example, and the line on which they are equal."""
    ends = [min(labels.min(), predictions.min()), max(labels.max(), predictions.max())]
    with _figure(height=3.6) as figure:
        axes = figure.subplots()
        axes.plot(ends, ends, color=FAINT, linewidth=1)
        axes.plot(labels, predictions, "o", color=EVALUATION, markersize=3, alpha=0.5, markeredgewidth=0)
        axes.set(xlabel="true", ylabel="predicted")
        _plain(axes)
        return _png(figure)


def scaling(rows):
    """Plots examples per second over the number of replicas, with the ideal line, and the time per epoch or step."""
    replicas = [row["replicas"] for row in rows]
    ideal = [count * rows[0]["examples_per_second"] / replicas[0] for count in replicas]
    unit, times = "s/epoch", [row["epoch_seconds"] for row in rows]
    if not all(times):
        unit, times = "ms/step", [row["step_ms"] for row in rows]
    with _figure(height=2.7) as figure:
        left, right = figure.subplots(1, 2)
        left.plot(replicas, ideal, color=INK, linestyle=":", label="ideal")
        left.plot(replicas, [row["examples_per_second"] for row in rows], color=TRAINING, marker="o")
        left.set(ylabel="examples/s")
        left.legend(frameon=False)
        right.plot(replicas, times, color=TRAINING, marker="o")
        right.set(ylabel=unit)
        for axes in (left, right):
            axes.set(xlabel="replicas", xticks=replicas, ylim=(0, None))
            _plain(axes)
        return _png(figure)


def confusion_matrix(class_names, matrix):
    """Plots counts by true class (rows) and predicted class (columns), with their share of the true class."""
    matrix = np.array(matrix)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    places = np.arange(len(class_names))
    with _figure(height=min(2 + 0.5 * len(class_names), 0.9 * _WIDTH)) as figure:
        axes = figure.subplots()
        shades = LinearSegmentedColormap.from_list("shades", [PAPER, TRAINING])
        axes.pcolormesh(shares, cmap=shades, vmin=0, vmax=1, edgecolors=FAINT, linewidth=0.5)
        axes.set(xlabel="predicted", ylabel="true", aspect="equal")
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        if len(class_names) <= 40:  # more names do not fit
            names = [literal(shortened(name, 24)) for name in class_names]
            rotation = 0
            if max(map(len, names)) * len(names) > 50:
                rotation = 90
            axes.set_xticks(places + 0.5, names, rotation=rotation)
            axes.set_yticks(places + 0.5, names)
        if len(class_names) <= 20:  # more numbers do not fit either
            _write_counts(axes, matrix, shares)
        axes.tick_params(length=0)
        return _png(figure)


def _write_counts(axes, matrix, shares):
    for (row, column), count in np.ndenumerate(matrix):
        share, color = shares[row, column], INK
        if share > 0.5:  # on a dark shade
            color = PAPER
        text = f"{count}"
        if len(matrix) <= 8 and count:  # elsewhere the shade has to do
            text += f"\n{100 * share:.0f} %"
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=color)


def samples(images, captions):
    """Plots images in rows of four, with captions above them."""
    rows = -(-len(images) // 4)
    with _figure(height=1.6 * rows) as figure:
        every = figure.subplots(rows, 4, squeeze=False).ravel()
        for axes in every:
            axes.axis("off")
        for axes, image, caption in zip(every, images, captions, strict=False):
            axes.imshow(image, cmap="gray")  # applies to images with one channel
            axes.set_title(literal(caption), fontsize=7)
        return _png(figure)


@contextlib.contextmanager
def _figure(height):
    """Yields a Figure of `height` inches; everything drawn in the `with` block has the colors of the page."""
    with matplotlib.rc_context(_STYLE):
        yield Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")


def _plain(axes):
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.6)


def _scale(axes, values):
    """Makes the axis logarithmic if values span orders of magnitude, and widens it if they are nearly constant."""
    low, high = min(values), max(values)
    if low > 0 and high > 100 * low:
        axes.set_yscale("log")
        return
    axes.ticklabel_format(axis="y", useOffset=False)
    middle, margin = (low + high) / 2, 0.1 * max(abs(low), abs(high)) or 1.0
    if high - low < margin / 10:
        axes.set_ylim(middle - margin, middle + margin)


def _over_steps(axes, name):
    axes.set(xlabel="global step", ylabel=literal(name))
    _plain(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return axes


def _plot(axes, points, color, *, marker=None, label=None):
    """Plots a line through {step: value}; a single point gets a marker, without which it would be invisible."""
    marker = "o" if len(points) == 1 else marker
    axes.plot(list(points), list(points.values()), color=color, marker=marker, markersize=4, label=label)


def _plot_smoothed(axes, points, color, label):
    """Plots a line through {step: value}, or, for many values, their average in front of them."""
    if len(points) < _WORTH_SMOOTHING:
        _plot(axes, points, color, label=label)
        return
    axes.plot(list(points), list(points.values()), color=color, alpha=0.3, linewidth=0.8)
    _plot(axes, smoothed(points), color, label=f"{label}, smoothed")


def _png(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png")  # bbox_inches="tight" is not needed with this layout, and would draw twice
    return file.getvalue()
