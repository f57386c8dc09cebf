"""Runs a script on an old TensorFlow and on today's, and compares what it leaves and prints."""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from estimator_train.compat.verify import side
from estimator_train.compat.verify.comparison import Comparison, compare
from estimator_train.compat.verify.initial_values import Values, compare_initial_values
from estimator_train.compat.verify.intended import reasons
from estimator_train.compat.verify.noise import Noise
from estimator_train.compat.verify.results import Name, results_of, variables
from estimator_train.compat.verify.runs import NotVerifiedError, Run, run, tensorflow_version, why_it_fails

TOLERANCE = 1e-5


class Verification(NamedTuple):
    """The versions of TensorFlow, the old one first, their runs, and the comparison of the results, by `results.Name`.

    `not_compared` has a line for each kind of result that cannot be compared. `noise` says how a second run on the old
    TensorFlow differs from the first; there is none if the two sides do not differ, or the script fails on the new one.
    """

    versions: tuple[str, str]
    runs: Sequence[Run]
    comparison: Comparison
    not_compared: list[str]
    noise: Noise | None = None


def verify(
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    python: str,
    directory: str | os.PathLike[str],
    is_module: bool = False,
    flags: Sequence[str] = (),
    files: Sequence[str] = (),
    time_limit: float | None = None,
    same_initial_values: bool = False,
    tolerance: float = TOLERANCE,
) -> Verification:
    """Runs a script with the Python of an old TensorFlow, and with `estimator_train run`, and compares the results.

    The runs are in the folders `old` and `new` of `directory`, with copies of `files`, which are paths below the
    current directory. `is_module` says that `script` is the name of a module, as in `python -m`. `flags` are those of
    `estimator_train run`; `time_limit` is in seconds for each run. With `same_initial_values`, trainings start from the
    first checkpoints of the old run, and what each side begins with by itself is compared apart. Raises
    NotVerifiedError if the script fails with the old TensorFlow, or takes too long.
    """
    versions = tensorflow_version(python), tf.__version__
    program = ["-m", str(script), *arguments] if is_module else [os.path.abspath(script), *arguments]
    places = Path(directory).resolve(), files, time_limit
    old = _Side("old", True, [python, *program], *places)
    new = _Side("new", False, [sys.executable, "-m", "estimator_train", "run", *flags, *program], *places)
    first = old.run()
    if first.code:
        raise NotVerifiedError(f"{script} fails with TensorFlow {versions[0]}: {why_it_fails(first, versions[0])}")
    initial, left_out, beginning = Comparison([], [], []), Counter[str](), None
    if same_initial_values:
        beginning = old.first_checkpoints
        if not beginning.exists():
            raise NotVerifiedError("the script saves no initial values with the old TensorFlow")
        initial, left_out = _compare_initial_values(old, new, tolerance)
    runs = [first, new.run(start_from=beginning)]
    results, not_compared = compare_runs(*runs)
    noise = None
    if results.largest > tolerance and not runs[1].code:
        noise = _noise(old, beginning, first, tolerance)
    both = Comparison(*(list(ours + others) for ours, others in zip(initial, results, strict=True)))
    return Verification(versions, runs, both, [*_lines(left_out), *not_compared], noise)


class _Side(NamedTuple):
    """The old side or the new one: the command of its script, and where it runs, with which files, for how long.

    `keeps` says whether every run keeps its first checkpoints, and may not train elsewhere than below its directory.
    """

    name: str
    keeps: bool
    command: list[str]
    directory: Path
    files: Sequence[str]
    time_limit: float | None

    @property
    def first_checkpoints(self) -> Path:
        """The folder with the first checkpoint of each training, in the place of its model_dir."""
        return self.directory / f"{self.name}_first_checkpoints"

    def again(self) -> "_Side":
        """The same side with directories of its own."""
        return self._replace(name=f"{self.name}_again")

    def run(self, start_from: Path | None = None, until: Callable[[], bool] | None = None) -> Run:
        """Runs the script, with checkpoints from the folder `start_from`; stops it once `until` is true."""
        directory = self.directory / self.name
        shutil.rmtree(directory, ignore_errors=True)
        for file in self.files:
            _copy(file, directory)
        if start_from:
            shutil.copytree(start_from, directory, dirs_exist_ok=True)
        environment = dict(os.environ)
        if self.keeps:
            environment[side.FIRST_CHECKPOINTS] = str(self.first_checkpoints)
        python, *program = self.command
        return run(python, program, directory, time_limit=self.time_limit, environment=environment, until=until)

    def initial_values(self, model_dirs: Sequence[Path]) -> Values:
        """Runs the script until it has begun the trainings in these directories; returns what they begin with."""
        states = [self.first_checkpoints / path / "checkpoint" for path in model_dirs]
        self._replace(keeps=True).run(until=lambda: all(state.exists() for state in states))
        return _initial_values(self.first_checkpoints)


def _initial_values(first_checkpoints: Path) -> Values:
    found = variables(first_checkpoints, Counter())
    return {name._replace(kind="initial value"): value for name, value in found}


def _compare_initial_values(old: _Side, new: _Side, tolerance: float) -> tuple[Comparison, Counter[str]]:
    states = sorted(old.first_checkpoints.rglob("checkpoint"), key=lambda state: state.stat().st_mtime_ns)
    model_dirs = [state.parent.relative_to(old.first_checkpoints) for state in states]
    of_old, of_new = _initial_values(old.first_checkpoints), new.initial_values(model_dirs)
    if not of_new:
        return Comparison([], [], []), Counter(["initial values, because the new side saves none"])

    def again() -> tuple[Values, Values]:
        return old.again().initial_values(model_dirs), new.again().initial_values(model_dirs)

    def is_of_first(name: Name) -> bool:
        return Path(name.place).parent == model_dirs[0]

    comparison, left_out = compare_initial_values(of_old, of_new, again, tolerance, is_of_first)
    _leave_out_intended(comparison, of_old, of_new)  # the checkpoints of the runs have the same, and count it
    return comparison, left_out


def _noise(old: _Side, beginning: Path | None, first: Run, tolerance: float) -> Noise:
    """Runs the script on the old side once more."""
    again = old.again()
    shutil.rmtree(again.first_checkpoints, ignore_errors=True)
    # Without the limit, within which the first run has ended: it may take a little longer.
    second = again._replace(time_limit=None).run(start_from=beginning)
    comparison, _ = compare_runs(first, second)
    initial = compare(*(_initial_values(each.first_checkpoints) for each in (old, again)))
    return Noise(comparison, initial.largest > tolerance)


def compare_runs(old: Run, new: Run) -> tuple[Comparison, list[str]]:
    """Compares the results of two runs, and returns what cannot be compared, too.

    Raises NotVerifiedError if the old one has no results but its exit code.
    """
    (of_old, left_out_of_old), (of_new, left_out_of_new) = results_of(old), results_of(new)
    if len(of_old) == 1:
        raise NotVerifiedError("the script prints nothing and leaves nothing in its directory that can be compared")
    comparison, left_out = compare(of_old, of_new), left_out_of_old | left_out_of_new
    return comparison, _lines(left_out | _leave_out_intended(comparison, of_old, of_new))


def _leave_out_intended(comparison: Comparison, old: Values, new: Values) -> Counter[str]:
    """Takes out of a comparison what one side alone is meant to have; returns how much that is, by the reason."""
    reason, left_out = reasons(old, new), Counter[str]()
    for names in (comparison.only_old, comparison.only_new):
        left_out.update(filter(None, map(reason, names)))
        names[:] = [name for name in names if reason(name) is None]
    return left_out


def _lines(left_out: Counter[str]) -> list[str]:
    return [f"{what} ({count})" for what, count in left_out.items()]


def _copy(file: str, directory: Path) -> None:
    target = directory / os.path.relpath(file)
    if directory not in Path(os.path.abspath(target)).parents:
        raise NotVerifiedError(f"{file} is not below the current directory; name it by its absolute path in the script")
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(file):
        shutil.copytree(file, target)
    else:
        shutil.copy(file, target)
