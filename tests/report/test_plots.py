"""Names in plots are shown as they are, whatever matplotlib would make of them."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from estimator_train.report import plots

NAMES = ["$a_$", "$", "a_b$c^d$"]


@pytest.fixture
def texts(monkeypatch):
    """What the saved figures show, their texts as drawn."""
    shown = []
    save = Figure.savefig

    def note_and_save(figure, *arguments, **options):
        save(figure, *arguments, **options)
        for text in figure.findobj(lambda artist: hasattr(artist, "_preprocess_math")):
            shown.append(text._preprocess_math(text.get_text()))

    monkeypatch.setattr(Figure, "savefig", note_and_save)
    return shown


def draw_matrix():
    plots.confusion_matrix(plots.LIGHT, NAMES, np.eye(3, dtype=int))


def draw_samples():
    plots.samples(plots.LIGHT, [Image.new("L", (4, 4))] * 3, NAMES)


def draw_curves():
    for name in NAMES:
        plots.curves(plots.LIGHT, name, {1: 1.0, 2: 1000.0}, {})


@pytest.mark.parametrize("draw", [draw_matrix, draw_samples, draw_curves])
def test_names_with_dollars_are_no_mathematics(draw, texts):
    draw()
    assert {(name, False) for name in NAMES} <= set(texts)
