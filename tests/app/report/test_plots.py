"""Names in plots are shown as they are, whatever matplotlib would make of them."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from estimator_train.app.report import plots

NAMES = ["$a_$", "$", "a_b$c^d$"]


@pytest.fixture
def texts(monkeypatch):
    """The texts in the saved figures."""
    shown = []
    save = Figure.savefig

    def note_and_save(figure, *arguments, **options):
        save(figure, *arguments, **options)
        for text in figure.findobj(lambda artist: hasattr(artist, "_preprocess_math")):
            shown.append(text._preprocess_math(text.get_text()))

    monkeypatch.setattr(Figure, "savefig", note_and_save)
    return shown


def draw_matrix():
    plots.confusion_matrix(NAMES, np.eye(3, dtype=int))


def draw_samples():
    plots.samples([Image.new("L", (4, 4))] * 3, NAMES)


def draw_curves():
    for name in NAMES:
        plots.curves(name, {1: 1.0, 2: 1000.0}, {})


@pytest.fixture
def axes(monkeypatch):
    """The axes of the drawn figures."""
    drawn = []
    monkeypatch.setattr(plots, "_png", lambda figure: drawn.extend(figure.axes))
    return drawn


def test_a_long_training_is_smoothed_with_its_values_behind(axes):
    values = {step: float(step % 2) for step in range(40)}
    plots.curves("loss", values, {39: 0.5})
    behind, smooth, evaluation = axes[0].lines
    assert [*behind.get_ydata()] == [*values.values()] and behind.get_alpha() < 1
    assert min(smooth.get_ydata()[10:]) > 0.4 and max(smooth.get_ydata()[10:]) < 0.6
    assert smooth.get_ydata()[0] == 0  # the first value, and no other
    assert evaluation.get_marker() == "o"
    plots.curves("loss", dict(list(values.items())[:5]), {})
    assert len(axes[1].lines) == 1


def test_lines_separate_phases_and_a_star_marks_the_best(axes):
    plots.curves("loss", {1: 1.0, 2: 0.5}, {1: 0.9, 2: 0.7}, [1], 2)
    border, _, _, star = axes[0].lines
    assert border.get_xdata() == [1, 1]
    assert (star.get_marker(), [*star.get_xdata()], [*star.get_ydata()]) == ("*", [2], [0.7])


def test_compared_runs_are_smoothed(axes):
    plots.compared_curves("loss", {"a": {step: float(step % 2) for step in range(40)}, "b": {1: 0.5}})
    behind, smooth, short = axes[0].lines
    assert behind.get_alpha() < 1 and max(smooth.get_ydata()[10:]) < 0.6
    assert [*short.get_ydata()] == [0.5]


def test_a_confusion_matrix_has_counts_and_per_cent(axes):
    plots.confusion_matrix(["a", "b"], [[3, 1], [0, 5]])
    assert [text.get_text() for text in axes[0].texts] == ["3\n75 %", "1\n25 %", "0", "5\n100 %"]


@pytest.mark.parametrize("value", [0.6931, 0.0, -2.0])
def test_an_axis_of_values_that_hardly_differ_does_not_magnify_that(axes, value):
    plots.curves("loss", {1: value, 2: value * (1 + 1e-6), 3: value}, {})
    low, high = axes[0].get_ylim()
    assert high - low > 0.1 and low < value < high


def test_a_reliability_diagram_has_a_point_a_bin(axes):
    plots.reliability([(0.55, 0.5, 4), (0.95, 1.0, 16)])
    (points,) = axes[0].collections
    assert points.get_offsets().tolist() == [[0.55, 0.5], [0.95, 1.0]]
    small, large = points.get_sizes()
    assert small < large


@pytest.mark.parametrize("draw", [draw_matrix, draw_samples, draw_curves])
def test_names_with_dollars_are_no_mathematics(draw, texts):
    draw()
    assert {(name, False) for name in NAMES} <= set(texts)
