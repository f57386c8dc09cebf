"""The plot of a learning rate range test."""

from matplotlib.figure import Figure

from estimator_train.app.report.learning_rates import RangeTest, plot


def test_losses_that_diverge_do_not_flatten_the_curve(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: drawn.append(figure))
    plot(RangeTest([1e-3, 1e-2, 1e-1, 1], [2.0, 1.5, 1.0, 900], [2.0, 1.8, 1.5, 90], 1e-2), tmp_path / "rates.png")
    (axes,) = drawn[0].axes
    low, high = axes.get_ylim()
    assert 0.8 < low < 1 and high == 3
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "average of the loss",
        "lowest at 1.0e-01",
        "suggestion 1.0e-02",
    ]
