"""Reads runs from their directories to compare them."""

from __future__ import annotations

from collections.abc import Iterable

from estimator_train.app.report.comparison import Run
from estimator_train.app.report.page import curves_of
from estimator_train.app.runs import predictions_file, run_files


def read_runs(model_dirs: Iterable[str]) -> list[Run]:
    """Returns the runs in directories, under these names.

    Raises:
      ValueError: a directory has no readable run.json.
    """
    return [_read(model_dir) for model_dir in model_dirs]


def _read(model_dir):
    run = run_files.read_run(model_dir)
    evaluations = run_files.read_evaluations(model_dir)
    facts = run["settings"] | run.get("training", {}) | {name: run.get(name) for name in ("devices", "git_commit")}
    return Run(
        name=model_dir,
        facts=facts | run.get("versions", {}),
        evaluation=run_files.result_of(evaluations),
        curves={
            name if side == "evaluation" else f"{name} of training": points
            for name, sides in curves_of(model_dir, evaluations).items()
            for side, points in sides.items()
            if points
        },
        predictions=predictions_file.read(model_dir),
        costs={name: value for name, value in _costs(model_dir).items() if value is not None},
    )


def _costs(model_dir):
    timing = run_files.read_timing(model_dir) or {}
    return {
        "weights": run_files.count_weights(model_dir),
        "examples/s in training": timing.get("examples_per_second"),
        "seconds in all": sum(session["whole_seconds"] for session in timing.get("sessions", ())) or None,
    }
