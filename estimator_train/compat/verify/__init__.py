"""Runs a script on an old TensorFlow and on today's, and compares what it leaves and prints."""

import itertools
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from estimator_train.compat.verify import side
from estimator_train.compat.verify.comparison import Comparison, compare
from estimator_train.compat.verify.intended import reasons
from estimator_train.compat.verify.results import results_of
from estimator_train.compat.verify.runs import NotVerifiedError, Run, run, tensorflow_version


class Verification(NamedTuple):
    """The versions of TensorFlow, the old one first, their runs, and the comparison of the results, by `results.Name`.

    `not_compared` has a line for each kind of result that cannot be compared.
    """

    versions: tuple[str, str]
    runs: Sequence[Run]
    comparison: Comparison
    not_compared: list[str]


def verify(
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    python: str,
    directory: str | os.PathLike[str],
    flags: Sequence[str] = (),
    files: Sequence[str] = (),
    time_limit: float | None = None,
    same_initial_values: bool = False,
) -> Verification:
    """Runs a script with the Python of an old TensorFlow, and with `estimator_train run`, and compares the results.

    The runs are in the folders `old` and `new` of `directory`, with copies of `files`, which are paths below the
    current directory. `flags` are those of `estimator_train run`; `time_limit` is in seconds for each run. With
    `same_initial_values`, trainings start from the first checkpoints of the old run. Raises NotVerifiedError if the
    script fails with the old TensorFlow, or takes too long.
    """
    versions = tensorflow_version(python), tf.__version__
    program = [os.path.abspath(script), *arguments]
    old, new = (Path(directory, name).resolve() for name in ("old", "new"))
    for file, copies in itertools.product(files, (old, new)):
        _copy(file, copies)
    first_checkpoints = old.with_name("first_checkpoints")
    environment = os.environ | {side.FIRST_CHECKPOINTS: str(first_checkpoints)}
    runs = [run(python, program, old, time_limit=time_limit, environment=environment)]
    if runs[0].code:
        raise NotVerifiedError(f"{script} fails with TensorFlow {versions[0]}: {runs[0].last_line}")
    if same_initial_values:
        _start_from(first_checkpoints, new)
    runs.append(run(sys.executable, ["-m", "estimator_train", "run", *flags, *program], new, time_limit=time_limit))
    return Verification(versions, runs, *compare_runs(*runs))


def _start_from(checkpoints: Path, directory: Path) -> None:
    if not checkpoints.exists():
        raise NotVerifiedError("the script saves no initial values with the old TensorFlow")
    shutil.copytree(checkpoints, directory, dirs_exist_ok=True)


def compare_runs(old: Run, new: Run) -> tuple[Comparison, list[str]]:
    """Compares the results of two runs, and returns what cannot be compared, too.

    Raises NotVerifiedError if the old one has no results but its exit code.
    """
    (of_old, left_out_of_old), (of_new, left_out_of_new) = results_of(old), results_of(new)
    if len(of_old) == 1:
        raise NotVerifiedError("the script prints nothing and leaves nothing in its directory that can be compared")
    comparison, left_out = compare(of_old, of_new), left_out_of_old | left_out_of_new
    reason = reasons(of_old, of_new)
    for names in (comparison.only_old, comparison.only_new):
        left_out.update(filter(None, map(reason, names)))
        names[:] = [name for name in names if reason(name) is None]
    return comparison, [f"{what} ({count})" for what, count in left_out.items()]


def _copy(file: str, directory: Path) -> None:
    target = directory / os.path.relpath(file)
    if directory not in Path(os.path.abspath(target)).parents:
        raise NotVerifiedError(f"{file} is not below the current directory; name it by its absolute path in the script")
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(file):
        shutil.copytree(file, target)
    else:
        shutil.copy(file, target)
