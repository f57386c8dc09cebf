"""Reads runs from their directories to compare them."""

from collections.abc import Iterable

from estimator_train.app.models.defaults import with_defaults
from estimator_train.app.report.comparison import ComparedRun
from estimator_train.app.report.page import curves_of
from estimator_train.app.runs.stored_run import StoredRun


def read_runs(model_dirs: Iterable[str]) -> list[ComparedRun]:
    """Returns the runs in directories, under these names; raises ValueError without a readable run.json."""
    return [read_run(StoredRun(model_dir)) for model_dir in model_dirs]


def read_run(run: StoredRun) -> ComparedRun:
    """Returns what is compared of a run, under the name of its directory."""
    facts = with_defaults(run.settings | run.training) | {
        name: run.about.get(name) for name in ("devices", "git_commit")
    }
    curves = {}
    for name, sides in curves_of(run).items():
        named = {f"{name} of training": sides["training"], name: sides["evaluation"]}
        curves |= {name: points for name, points in named.items() if points}
    return ComparedRun(
        name=run.model_dir,
        facts=facts | run.about.get("versions", {}),
        evaluation=run.result,
        curves=curves,
        predictions=run.predictions,
        costs={name: value for name, value in _costs(run).items() if value is not None},
    )


def _costs(run):
    timing = run.timing or {}
    sessions = timing.get("sessions", ())
    return {
        "weights": run.weights,
        "weights that train": run.about.get("trained_weights"),
        "examples/s in training": timing.get("examples_per_second"),
        "seconds in all": sum(session["whole_seconds"] for session in sessions) or None,
        "seconds of frozen layers": sum(session["features_seconds"] for session in sessions) or None,
    }
