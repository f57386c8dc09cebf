"""The work of `estimator_train compare`: reads runs from their directories and writes the comparison."""

from __future__ import annotations

from estimator_train.app.cli import predictions_file
from estimator_train.app.cli.errors import one_line_errors
from estimator_train.app.report import run_files
from estimator_train.app.report.comparison import Run
from estimator_train.app.report.comparison_page import write_comparison
from estimator_train.app.report.page import curves_of


def compare(model_dirs, page):
    """Writes a comparison of the runs to the file `page` and returns a list of `Run`s."""
    runs = [_read(model_dir) for model_dir in model_dirs]
    with one_line_errors():
        write_comparison(page, runs)
    return runs


def _read(model_dir):
    """Returns the `Run` in `model_dir`, under that name."""
    with one_line_errors():
        run = run_files.read_run(model_dir)
    evaluations = run_files.read_evaluations(model_dir)
    facts = run["settings"] | run.get("training", {}) | {name: run.get(name) for name in ("devices", "git_commit")}
    return Run(
        name=model_dir,
        facts=facts | run.get("versions", {}),
        evaluation=evaluations[-1] if evaluations else None,
        curves={
            name if side == "evaluation" else f"{name} of training": points
            for name, sides in curves_of(model_dir, evaluations).items()
            for side, points in sides.items()
            if points
        },
        predictions=predictions_file.read(model_dir),
    )
