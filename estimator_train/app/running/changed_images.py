"""Says which images of a run have changed since it was trained, and which of those evaluated it was trained on."""

from collections.abc import Mapping

from estimator_train._engine.host.paths import is_remote
from estimator_train.app import datasets
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.datasets.held_out import BY_RANK
from estimator_train.app.datasets.same_files import same_files
from estimator_train.app.errors import SettingError
from estimator_train.app.running.messages import warn
from estimator_train.app.runs import StoredRun, run_file, sides_file
from estimator_train.app.runs.spec import Settings

_OF_FILES = ("images", "manifest", "oct2017", "synthetic_oct")  # which can be opened without trust in a run
_USES = {"train": "to train on", "validation": "to choose on", "eval": "to evaluate on"}


def say_changes(run: StoredRun, settings: Settings, data: Dataset | None) -> None:
    """Warns if the images of a run are others than those that it was trained and evaluated with."""
    before, now = sides_file.read(run.model_dir), sides_file.sides_of(data)
    facts = _by_names(before, now) if before is not None and now is not None else _by_numbers(run, settings, data)
    if facts:
        warn(f"the images of {run.model_dir} have changed since it was trained: {'; '.join(facts)}")


def keep_sides(model_dir: str, settings: Settings, data: Dataset | None, *, is_new: bool) -> None:
    """Keeps which images a run is going to train on, before its run.json is written; see `sides_file.save`."""
    is_known = True
    if not is_new and run_file.path_in(model_dir).exists() and sides_file.read(model_dir) is None:
        is_known = not _by_numbers(StoredRun(model_dir), settings, data)
    sides_file.save(model_dir, data, is_new=is_new, is_known=is_known)


def _by_names(before: Mapping[str, set[str]], now: Mapping[str, set[str]]) -> list[str]:
    """Returns what is to be said of a run whose sides.csv lists its images."""
    found = sides_file.changes(before, now)
    if found is None:
        return []
    numbers = {"new": found.new, "gone": found.gone, "on another side": found.moved}
    facts = [", ".join(f"{_are(number)} {what}" for what, number in numbers.items() if number)]
    for side, number in found.trained_on.items():
        facts.append(f"{number} of the {len(now[side])} {_USES[side]} had been trained on, so the numbers are too good")
    if found.doubtful:
        facts.append(f"{found.doubtful} to choose or evaluate on may have been trained on, such as under other names")
    return list(filter(None, facts))


def _by_numbers(run: StoredRun, settings: Settings, data: Dataset | None) -> list[str]:
    """Returns what can be said of a run of before, or of data without files: their images are listed nowhere."""
    if data is None or not run.data:
        return []
    now = {side: part.count for side, part in data.parts.items()}
    before = {side: run.data.get(side, 0) for side in _USES}
    facts = [
        f"{now.get(side, 0)} {use} instead of {before[side]}"
        for side, use in _USES.items()
        if now.get(side, 0) != before[side]
    ]
    if settings.held_out_by == BY_RANK:
        from estimator_train.app.runs import predictions_file  # NumPy comes with it

        judged = run.predictions or {}
        others = set(predictions_file.image_names(data)) - judged.keys()
        if judged and others:
            facts.append(f"{len(others)} {_USES['eval']} were not evaluated then")
        if facts:
            facts.append("which images it has trained on is not known, and some of these may be evaluated now")
    return facts


def say_shared(data: Dataset) -> None:
    """Warns if two sides of a dataset have the same files, as copies in several folders are."""
    parts = data.parts
    for side, other in (("validation", "train"), ("eval", "train"), ("validation", "eval")):
        if side not in parts or other not in parts:
            continue
        if number := same_files(parts[side].paths, parts[other].paths):
            warn(
                f"{data.name}: {number} of the {parts[side].count} images {_USES[side]} are the same files as images "
                f"{_USES[other]}, so the numbers are too good"
            )


def say_trained_on(settings: Settings, data: Dataset) -> None:
    """Warns if images given to evaluate a run on, by its own `settings`, are files that it is trained on, or copies."""
    if settings.dataset not in _OF_FILES or not settings.data_dir or is_remote(settings.data_dir):
        return
    if not datasets.is_here(settings.dataset, settings.data_dir):
        return
    try:
        own = settings.open_data(draw=False)
    except SettingError:  # the run's own data is gone, and these are others
        return
    if number := same_files(data.eval.paths, own.train.paths):
        warn(
            f"{number} of the {data.eval_examples} images to evaluate on had been trained on, so the numbers are too "
            "good"
        )


def _are(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'}"
