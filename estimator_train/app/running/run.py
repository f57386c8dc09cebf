"""`Run`: a run to be planned, trained, resumed, evaluated and exported, in Python as by the command."""

import contextlib
import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from estimator_train._engine.host.files import printable
from estimator_train._engine.host.html_table import html_table
from estimator_train._engine.host.logs import logging_only
from estimator_train._engine.host.notebook import is_kernel
from estimator_train._engine.host.paths import StrPath
from estimator_train.app.errors import SettingError
from estimator_train.app.running import exporting, planning
from estimator_train.app.running.changed_images import say_changes
from estimator_train.app.running.directories import check_directory, check_model_dir, place_of
from estimator_train.app.running.image_paths import Predicted, find_images
from estimator_train.app.running.messages import warn
from estimator_train.app.running.opened_run import (
    ask,
    check_evaluable,
    check_predictable,
    data_of_run,
    data_to_evaluate,
    named_by,
    trusted_settings,
)
from estimator_train.app.running.plan import plan
from estimator_train.app.running.selected_checkpoint import checkpoint_prefix
from estimator_train.app.running.startup import starting_tensorflow
from estimator_train.app.runs import StoredRun, checkpoints, run_file, spec
from estimator_train.app.runs.progress import Progress
from estimator_train.app.runs.rules import kept

if TYPE_CHECKING:
    from estimator_train.app.running.kept_evaluation import Evaluation

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Plan:
    """Describes what a training will do: `str` gives the lines of --dry-run, and a notebook shows a table.

    Attributes:
      facts: {name: text} of its lines.
    """

    def __init__(self, run: planning.PlannedRun) -> None:
        self._lines = plan(run)
        self.facts = {line[:12].rstrip(): line[13:] for line in self._lines}

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table("plan", self.facts)


class Run(StoredRun):
    """A run in a directory, new or trained already; what it has left there are its other attributes, of `StoredRun`.

        >>> run = et.runs.new("runs/drawn", model="small_cnn", epochs=5)
        >>> run.plan().facts["steps"]  # a line of what --dry-run prints
        '125: 5 epochs of 25 steps'

    After `run.train()` come `run.evaluate()`, `run.predict("scan.jpeg")`, `run.report()` and
    `run.export("tflite", "out")`, and later `et.runs.open("runs/drawn").resume(epochs=10)`.

    Settings are the flags of `estimator_train train` that describe a run, with the same defaults, checks and words; see
    docs/command.md. A training leaves the same checkpoints as the command's, to the bit.

    Methods raise ValueError with one line, which names the setting or the file at fault, where the command prints one;
    after Ctrl-C, a training saves a checkpoint and raises KeyboardInterrupt.
    """

    def __init__(
        self, model_dir: StrPath, given: Mapping[str, Any] | None = None, *, trust_run: bool | None = False
    ) -> None:
        self._trusts, self._new = trust_run, given
        check_model_dir(os.fspath(model_dir))
        if given is None:
            super().__init__(model_dir)
        else:
            self.model_dir = os.fspath(model_dir)

    def __repr__(self) -> str:
        return f"<Run {self.model_dir}>"

    @property
    def progress(self) -> Progress:
        """How far the training has come: the step and the name of its checkpoint, and the phases that have ended."""
        return Progress.of(self.model_dir, checkpoints.newest(self.model_dir))

    def plan(self, **changes: Any) -> Plan:
        """Returns what `train` is going to do, or `resume` with these changes; nothing is downloaded for it."""
        run = planning.resolve(self._request(changes, only_plans=True))
        planning.check(run)
        return Plan(run)

    def train(self, *, quiet: bool = False) -> "Run":
        """Trains a new run, evaluates it and writes its report; returns the run. With `quiet`, only the result is said.

        Raises ValueError if the directory holds a trained run: `resume` continues it.
        """
        if self._new is None:
            raise SettingError("{0} holds a run: resume() continues it, and new() starts another", self.model_dir)
        return self._trained({}, quiet)

    def resume(self, *, quiet: bool = False, **changes: Any) -> "Run":
        """Continues the run from its newest intact checkpoint, with settings changed as in epochs=10; returns the run.

        Raises ValueError if a setting may not change; docs/flags.md says which may.
        """
        if run_file.path_in(self.model_dir).exists():
            self._new = None  # it has begun, even if it has failed since
        return self._trained(changes, quiet)

    def evaluate(
        self,
        checkpoint: str | int | None = None,
        *,
        dataset: str | None = None,
        data_dir: str | None = None,
        choose_thresholds: bool = False,
    ) -> "Evaluation":
        """Returns the evaluation of a checkpoint, which evaluations.jsonl in the run's directory keeps.

        `run.evaluate("best").metrics["accuracy"]` is a number, `pandas.DataFrame(run.evaluate().predictions)` a frame.

        Args:
          checkpoint: "best", "latest", a step, a name or a path; by default the one that counts, `kept`.
          dataset: another dataset of the same classes to evaluate on, instead of the run's own.
          data_dir: other images to evaluate on: a folder of class folders or a CSV file.
          choose_thresholds: chooses the probability from which each of several labels is predicted, and keeps it.
        """
        with _own_lines_alone():
            (evaluated,) = self.evaluations_of([checkpoint], dataset, data_dir, choose_thresholds=choose_thresholds)
        return evaluated

    def evaluations_of(
        self,
        checkpoints: Sequence[str | int | None] | None,
        dataset: str | None = None,
        data_dir: str | None = None,
        *,
        choose_thresholds: bool = False,
        names_examples: bool = False,
    ) -> Iterator["Evaluation"]:
        """Yields the evaluations of some checkpoints, or, if they are None, of all intact ones; see `evaluate`.

        All are evaluated on the validation images, if there are any, because they are compared with each other.
        `names_examples`: whether the run must have classes or numbers to predict.
        """
        settings, place = trusted_settings(self, self._trusts), place_of(self.model_dir)
        check_evaluable(self, settings, place, choose_thresholds, names_examples)
        selected = [checkpoint_prefix(self, each) for each in checkpoints or ()]
        examined = data_to_evaluate(self, settings, dataset, data_dir, bool(self._trusts), not selected)

        with starting_tensorflow():
            from estimator_train.app.running import build, kept_evaluation

        paths = [path for each in selected or [None] for path in build.checkpoint_paths(self, each, not selected)]
        how = {"choose_thresholds": choose_thresholds, "ranks": not selected}
        yield from kept_evaluation.evaluations(examined, self.model_dir, place, paths, **how)
        self._forget()

    def predict(
        self, *images: StrPath, checkpoint: str | int | None = None, top: int | None = None
    ) -> list[dict[str, Any]]:
        """Returns the predictions for image files, folders of them or patterns, in order.

        That of "scan.jpeg" is {"file": "scan.jpeg", "class": "CNV", "probabilities": {"CNV": 0.93, "DME": 0.04, ...}};
        several labels are a list, "labels", and a number is "number". `top` keeps the most probable classes. Files that
        cannot be read are said on standard error and left out.
        """
        predicted = self.predicted([os.fspath(image) for image in images], checkpoint, top)
        for fault in predicted.faults:
            warn(printable(fault))
        return predicted.entries

    def predicted(
        self, images: Sequence[str], checkpoint: str | int | None = None, top: int | None = None
    ) -> Predicted:
        """Does what `predict` does, and returns what else is to be said of it."""
        settings = trusted_settings(self, self._trusts)
        check_predictable(self, settings, top)
        prefix, found = checkpoint_prefix(self, checkpoint), find_images(images)

        with starting_tensorflow():
            from estimator_train.app.running import build, prediction

        (path,) = build.checkpoint_paths(self, prefix)
        entries, faults = prediction.entries(settings, self.model_dir, path, found.paths, top)
        return Predicted(entries, found.others, found.faults + faults)

    def report(self, checkpoint: str | int | None = None) -> str:
        """Evaluates a checkpoint, writes the run's report, and returns the path of report.html."""
        settings = trusted_settings(self, self._trusts)
        check_directory(self.model_dir, "model_dir")
        prefix = checkpoint_prefix(self, checkpoint)
        data = data_of_run(self, settings, bool(self._trusts))
        say_changes(self, settings, data)

        with starting_tensorflow():
            from estimator_train.app.running import build, reporting

        (path,) = build.checkpoint_paths(self, prefix)
        with _own_lines_alone():
            written = reporting.report(settings, self.model_dir, path, data)
        self._forget()
        return written

    def export(self, file_format: str, out: StrPath | None = None, checkpoint: str | int | None = None) -> str:
        """Writes the trained model in a format for deployment into a folder; returns its path, as out/model.tflite.

        Args:
          file_format: "saved_model", "keras", "weights", "tflite", "tflite_float16", "tflite_dynamic_range",
            "tflite_int8" or "onnx".
          out: a folder on this machine; by default, "exported" in the run's directory.
          checkpoint: as for `evaluate`.
        """
        return self.exported(file_format, out or os.path.join(self.model_dir, "exported"), checkpoint).path

    def exported(self, file_format: str, out: StrPath, checkpoint: str | int | None = None) -> exporting.Exported:
        """Does what `export` does, and returns what is to be said of it."""
        settings, out = trusted_settings(self, self._trusts), os.fspath(out)
        prefix = checkpoint_prefix(self, checkpoint)
        targets = exporting.check_out(out, file_format)
        data = None
        if file_format in exporting.CONVERTED:
            data = data_of_run(self, settings, bool(self._trusts))

        with starting_tensorflow():
            from estimator_train.app.running import build, export

        (path,) = build.checkpoint_paths(self, prefix)
        return export.export(self.spec, data, self.model_dir, path, file_format, out, targets)

    def _trained(self, changes: Mapping[str, Any], quiet: bool) -> "Run":
        if threading.current_thread() is not threading.main_thread():
            raise SettingError(
                "a run is trained in the main thread, which Ctrl-C interrupts; call train and resume there"
            )
        run = planning.resolve(self._request(changes, verbosity="quiet" if quiet else "normal"))
        planning.check(run)
        with _handlers_kept(), _own_lines_alone():
            code = planning.start(run)
        self._new = None
        self._forget()
        if code == 128 + signal.SIGINT:
            raise KeyboardInterrupt
        if code:
            sys.exit(code)
        return self

    def _request(self, changes: Mapping[str, Any], **how: Any) -> planning.Request:
        """Returns what is asked of a training: a new one, or that of the run with changes."""
        given = spec.checked(changes)
        if self._new is not None:
            given = spec.checked({**self._new, **given})
            return planning.Request(given, given.keys(), self.model_dir, **how)
        path = run_file.path_in(self.model_dir)
        stored = kept(run_file.given_in(path), given, spec.RULES)
        spec.check_rules(stored | given, spec.RULES)
        ask(path, named_by(stored, given), bool(self._trusts))
        return planning.Request(stored | given, given.keys(), self.model_dir, resumes=True, **how)

    def _forget(self) -> None:
        """Lets the files of the run be read again."""
        for name, value in vars(StoredRun).items():
            if isinstance(value, functools.cached_property):
                vars(self).pop(name, None)


def _own_lines_alone() -> contextlib.AbstractContextManager[None]:
    """Hides TensorFlow's lines of level INFO, which it shows in notebooks: those of the run say the same."""
    return logging_only(lambda record: record.levelno > logging.INFO or not is_kernel())


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Puts back the handlers of signals: a training leaves some ignored, because the command ends with it."""
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def new(model_dir: StrPath, **settings: Any) -> Run:
    """Returns a run that is to be trained in a directory; settings are the flags of `train` by their names.

    >>> et.runs.new("runs/photos", dataset="images", data_dir="photographs", model="mobilenet_v2", epochs=5)
    <Run runs/photos>

    Raises ValueError for a setting that there is not, naming the nearest one, and for a value that it may not have.
    """
    return Run(model_dir, spec.checked(settings))


def open(model_dir: StrPath, *, trust_run: bool = False) -> Run:
    """Returns the run in a directory; raises ValueError if there is none; see `Run`.

    >>> et.runs.open("runs/scans")
    <Run runs/scans>

    `trust_run`: whether its methods may run the functions, write to the folders and download the data that a run.json
    of somebody else names.
    """
    return Run(model_dir, trust_run=trust_run)
