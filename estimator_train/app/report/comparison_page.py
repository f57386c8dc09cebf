"""Writes the page that compares runs: one HTML file with curves, metrics and examples with different outcomes."""

from collections.abc import Callable, Sequence

from PIL import Image

from estimator_train._engine.host.files import write_whole
from estimator_train._engine.host.paths import StrPath
from estimator_train.app.report import comparison, plots
from estimator_train.app.report.comparison import ComparedRun
from estimator_train.app.report.page import Figure, template

_PICTURED = 12  # examples per list that are shown with their images
_SHOWN = 200  # examples per list


def write_comparison(
    path: StrPath, runs: Sequence[ComparedRun], read_image: Callable[[str], Image.Image | None] | None = None
) -> str:
    """Writes the page that compares `runs` to `path`, and returns the path.

    >>> names = [("a", {"seed": 1}), ("b", {"seed": 2})]
    >>> runs = [comparison.ComparedRun(name, facts, None, {}, None) for name, facts in names]
    >>> write_comparison("comparison.html", runs)
    'comparison.html'

    `read_image` returns the image of an example, by the name it has in `ComparedRun.predictions`, or None.
    """
    page = template("comparison.html").render(
        names=[run.name for run in runs],
        columns=comparison.columns([run.name for run in runs]),
        numbers=comparison.with_differences(comparison.numbers(runs)),
        classes={name: comparison.with_differences(rows) for name, rows in comparison.class_numbers(runs).items()},
        costs=comparison.with_differences(comparison.costs(runs), comparison.COSTS),
        facts=comparison.differing_facts(runs),
        changes=comparison.changes(runs),
        figures=list(_figures(runs)),
        shown=_SHOWN,
        pictured=_PICTURED,
        read_image=read_image or (lambda name: None),
    )
    write_whole(path, page)
    return str(path)


def _figures(runs):
    """Yields a figure for each metric that is known at two steps or more."""
    for name in dict.fromkeys(name for run in runs for name in run.curves):
        known = {run.name: run.curves[name] for run in runs if name in run.curves}
        if max(map(len, known.values())) < 2:
            continue
        ends = [f"{run} ends at {list(points.values())[-1]:.4g}" for run, points in known.items()]
        alt = f"{name} over the global steps: {', '.join(ends)}."
        yield Figure(name, alt, plots.compared_curves(name, known))
