"""A run on disk: its settings, checkpoints, evaluations and timing."""

from __future__ import annotations

import functools
import logging
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.errors import SettingError
from estimator_train.app.runs import checkpoints, run_file
from estimator_train.app.runs.parsed_json import NUMBER, has, parsed

if TYPE_CHECKING:
    from estimator_train.app.runs.predictions_file import Prediction
    from estimator_train.app.runs.spec import RunSpec
    from estimator_train.app.runs.thresholds import Thresholds

log = logging.getLogger("tensorflow")  # that of tf.get_logger(); a command looks at a run before it imports TensorFlow

_NO_RUN = "{0} holds no run: it has no run.json; evaluate what a program has trained in that program"
_SLOT, _VARIABLE = "/.OPTIMIZER_SLOT/", "/.ATTRIBUTES/VARIABLE_VALUE"  # of a checkpoint of a Keras model
_BESIDE_MODEL = ("optimizer/", "estimator_", "save_counter/")
_NUMBER_OR_NONE = (*NUMBER, type(None))
_TIMES = ("steps_per_second", "examples_per_second", "input_wait_share")
_SCALING = ("replicas", "step_ms", "examples_per_second", "speed_up", "efficiency")
_PARTS = ("warmup", "checkpoint", "evaluation", "other", "whole")
_EARLIER = {"features_seconds": 0.0}  # what sessions of earlier versions lack
_SESSION = ("first_step", "last_step", "seconds", *(f"{part}_seconds" for part in _PARTS))


class StoredRun:
    """The run in a directory; each of its files is read when it is first asked for, and only then.

        >>> run = et.runs.open("runs/scans")
        >>> run.settings["model"], run.training["keep_best"], run.data["train"]
        ('small_cnn', True, 8)
        >>> [os.path.basename(path) for path in (run.newest, run.best, run.kept)]
        ['model.ckpt-4', 'model.ckpt-2', 'model.ckpt-2']
        >>> [entry["step"] for entry in run.evaluations], run.result["checkpoint"]
        ([2, 4, 2], 'model.ckpt-2')
        >>> len(run.predictions), run.thresholds, run.timing["steps_per_second"]
        (8, None, 8.0)

    A run that was trained in Python has event files but no run.json, and no settings. What is damaged, or written by
    another version, is left out; if it is not in run.json, with a warning.

    Raises:
      ValueError: there are neither, or run.json does not contain the settings of a run.

    Attributes:
      model_dir: the directory, as it was given.
    """

    def __init__(self, model_dir: StrPath) -> None:
        self.model_dir = os.fspath(model_dir)
        self.about  # noqa: B018  # raises

    def __repr__(self) -> str:
        return f"<StoredRun {self.model_dir}>"

    @functools.cached_property
    def about(self) -> dict[str, Any]:
        """The content of run.json: command, started, versions, devices, git_commit and the parts below."""
        return _about(self.model_dir)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the data and the model, by the names of their flags; a resumed run keeps most of them."""
        return self.about["settings"]

    @property
    def training(self) -> dict[str, Any]:
        """Settings of the training, by the names of their flags, as the run was last started or resumed."""
        return self.about["training"]

    @property
    def data(self) -> dict[str, Any]:
        """Numbers of examples: "train", "eval", perhaps "validation", and "classes" with those of each class."""
        return self.about.get("data", {})

    @functools.cached_property
    def spec(self) -> RunSpec:
        """The settings in their classes; raises SettingError if run.json lacks some."""
        path = run_file.path_in(self.model_dir)
        if not path.exists():
            raise SettingError(_NO_RUN, self.model_dir)
        return run_file.spec_of(self.about, path)

    @functools.cached_property
    def newest(self) -> str | None:
        """Path prefix of the newest intact checkpoint, or None."""
        return newest_intact(self.model_dir)

    @functools.cached_property
    def best(self) -> str | None:
        """Path prefix of the checkpoint that --keep-best keeps, or None."""
        return checkpoints.best(self.model_dir)

    @functools.cached_property
    def damages(self) -> dict[str, str | None]:
        """Why a checkpoint cannot be used, None for an intact one, by the path prefixes of all, the oldest first."""
        from estimator_train._engine.application import kept_in

        paths = kept_in(self.model_dir)
        if self.best and os.path.basename(self.best) not in map(os.path.basename, paths):
            paths = [self.best, *paths]  # training keeps only a few others, which are newer
        return {path: self.damage_of(path) for path in paths}

    def damage_of(self, checkpoint: str) -> str | None:
        """Returns in one line why the checkpoint at a path prefix cannot be used, None for an intact one."""
        from estimator_train._engine.application import damage_of

        return damage_of(checkpoint)

    @property
    def keeps_best(self) -> bool:
        """Whether the best checkpoint counts, not the newest: of a run with --keep-best or --early-stopping."""
        return bool(self.training.get("keep_best"))

    @property
    def kept(self) -> str | None:
        """Path prefix of the checkpoint that evaluate, predict and export use: the best if kept, or the newest."""
        if self.keeps_best and self.best:
            return self.best
        return self.newest

    @property
    def best_step(self) -> int | None:
        """Global step of the best checkpoint, or None."""
        return checkpoints.step_of(self.best or "")

    @functools.cached_property
    def evaluations(self) -> list[dict[str, Any]]:
        """The evaluations, in order: see `evaluations.entry_of`."""
        from estimator_train.app.runs import evaluations

        return evaluations.read(self.model_dir)

    @functools.cached_property
    def result(self) -> dict[str, Any] | None:
        """The evaluation that is the run's result: see `evaluations.result_of`."""
        from estimator_train.app.runs import evaluations

        return evaluations.result_of(self.evaluations)

    @functools.cached_property
    def predictions(self) -> dict[str, Prediction] | None:
        """The prediction for each example, by its name, in the run's result; None unless the model is a classifier."""
        from estimator_train.app.runs import predictions_file

        return predictions_file.read(self.model_dir)

    @functools.cached_property
    def thresholds(self) -> Thresholds | None:
        """The thresholds of several labels that `evaluate --choose-thresholds` has chosen, or None."""
        from estimator_train.app.runs import thresholds

        return thresholds.read(self.model_dir, self.settings.get("class_names") or ())

    @functools.cached_property
    def timing(self) -> dict[str, Any] | None:
        """What `TimingHook` measured; sessions that lack a breakdown of their time are left out."""
        path = as_path(self.model_dir, "timing.json")
        if not path.is_file():
            return None
        timing = parsed(path.read_bytes())
        if isinstance(timing, dict) and all(isinstance(timing.get(name, ""), _NUMBER_OR_NONE) for name in _TIMES):
            sessions = timing.get("sessions")
            if not isinstance(sessions, list):
                sessions = []
            return timing | {"sessions": [_EARLIER | session for session in sessions if _is_session(session)]}
        log.warning("%s is skipped because it is not the timing of a training; the next training will rewrite it", path)
        return None

    @functools.cached_property
    def scaling(self) -> list[dict[str, Any]]:
        """What `bench --out model_dir/bench` measured: see `scaling.scaling`."""
        path = as_path(self.model_dir, "bench", "scaling.json")
        if not path.is_file():
            return []
        measured = parsed(path.read_bytes())
        if has(measured, scaling=list) and all(map(_is_scaling, measured["scaling"])):
            return measured["scaling"]
        log.warning("%s is skipped because it was not written by bench; run bench again", path)
        return []

    @functools.cached_property
    def summaries(self) -> dict[int, dict[str, Any]]:
        """The scalars that training has written to event files, by global steps and names."""
        from estimator_train.app.runs import evaluations

        return evaluations.scalars_in(self.model_dir)

    @property
    def phase_ends(self) -> Sequence[int]:
        """Global steps at which one of the run's --phases ends and the next one begins."""
        return self.about.get("phase_ends", [])

    @functools.cached_property
    def weights(self) -> int | None:
        """Number of weights in the newest checkpoint of a Keras model, or None."""
        from estimator_train._engine.application import reader_of

        newest = self.newest
        if newest is None:
            return None
        shapes = reader_of(newest).get_variable_to_shape_map()
        names = [name for name in shapes if name.endswith(_VARIABLE) and _SLOT not in name]
        return sum(math.prod(shapes[name]) for name in names if not name.startswith(_BESIDE_MODEL)) or None


def newest_intact(model_dir: StrPath) -> str | None:
    """Returns the path prefix of the newest checkpoint in a directory all of whose values are intact, or None.

    Warns of damaged ones; raises ValueError if all are damaged. `checkpoints.newest` is the answer without TensorFlow.
    """
    from estimator_train._engine.application import latest_intact

    return latest_intact(model_dir)


def _about(model_dir):
    """Returns the content of run.json, without parts that have another form."""
    if not as_path(model_dir).is_dir():
        raise SettingError("{0}: there is no such folder; give the folder of a run", model_dir)
    path = run_file.path_in(model_dir)
    if not path.exists():
        if any(as_path(model_dir).glob("events.out.tfevents.*")):
            return {"settings": {}, "training": {}}
        raise SettingError(_NO_RUN, model_dir)
    about = run_file.read(path)
    if not isinstance(about["settings"].get("model"), str):
        raise ValueError(f"{path} has no settings of a run with a model; it must be the run.json of a run")
    kinds = {"command": str, "versions": dict, "trained_weights": int}
    wrong = {name for name, kind in kinds.items() if not isinstance(about.get(name), kind)}
    if not _is_counts(about.get("data")):
        wrong.add("data")
    if not (isinstance(about.get("last_step"), int) and 0 <= about["last_step"] < 2**63):
        wrong.add("last_step")
    if not _is_steps(about.get("phase_ends")):
        wrong.add("phase_ends")
    return {name: value for name, value in about.items() if name not in wrong}


def _is_scaling(row):
    return has(row, **dict.fromkeys(_SCALING, NUMBER)) and "epoch_seconds" in row


def _is_steps(value):
    return isinstance(value, list) and all(isinstance(step, int) and 0 < step < 2**63 for step in value)


def _is_session(session):
    kinds = {"started": str, "input_wait_seconds": _NUMBER_OR_NONE} | dict.fromkeys(_SESSION, NUMBER)
    return has(session, **kinds) and isinstance(session.get("features_seconds", 0.0), NUMBER)


def _is_counts(data):
    """Returns whether `data` is a valid "data" entry of run.json: numbers of examples, per class if known."""
    if not has(data, train=int, eval=int) or "classes" not in data:
        return False
    classes = data["classes"]
    if not classes:
        return True
    if not has(classes, train=dict, eval=dict) or any(
        counts.keys() != classes["train"].keys() for counts in classes.values()
    ):
        return False
    if "validation" in classes and not has(data, validation=int):
        return False
    return all(isinstance(count, int) for counts in classes.values() for count in counts.values())
