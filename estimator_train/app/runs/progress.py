"""How many epochs a run has been trained for, however often it was resumed in other steps or on other data."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

from estimator_train._engine.host.paths import StrPath
from estimator_train.app.runs import checkpoints, run_file
from estimator_train.app.runs.parsed_json import has

_MOST_STEPS = 2**63 - 1  # the global step is an int64


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Epochs are counted here alone: the plan, the end of training, callbacks and loggers ask `first_step`.
    """

    checkpoint: str | None = None  # the newest intact one
    # Pairs of a global step and the number of steps that an epoch has from there on, in ascending order.
    steps_per_epoch: tuple[tuple[int, int], ...] = ()
    ended_phases: tuple[int, ...] = ()  # global steps at which its first --phases have ended

    @classmethod
    def of(cls, model_dir: StrPath, checkpoint: str | None) -> Progress:
        """Returns how far the run in `model_dir` has come at one of its checkpoints, or at none."""
        step, path = _step_of(checkpoint), run_file.path_in(model_dir)
        if step == 0 or not path.exists():
            return cls(checkpoint)
        about = run_file.read(path)
        ends = about.get("phase_ends", [])
        if not _is_steps(ends):
            ends = []
        return cls(checkpoint, _steps_per_epoch(about), tuple(end for end in ends if end <= step))

    @property
    def step(self) -> int:
        """The global step, 0 without a checkpoint."""
        return _step_of(self.checkpoint)

    def epochs(self, step: int) -> Fraction:
        """Returns how many epochs the run had been trained for at a global step."""
        borders = [*(first for first, _ in self.steps_per_epoch), max(step, self.step)]
        done = Fraction(0)
        for (_, length), (first, last) in zip(self.steps_per_epoch, itertools.pairwise(borders), strict=True):
            done += Fraction(max(min(last, step) - first, 0), length)
        return done

    def going_on(self, steps_per_epoch: int) -> Progress:
        """Returns the progress of a run that goes on with so many steps per epoch."""
        before = tuple(pair for pair in self.steps_per_epoch if pair[0] < self.step)  # others are of lost checkpoints
        if not before:
            before = ((0, steps_per_epoch),)  # unknown
        if before[-1][1] != steps_per_epoch:
            before = (*before, (self.step, steps_per_epoch))
        return dataclasses.replace(self, steps_per_epoch=before)

    def first_step(self, steps_per_epoch: int, since: int = 0) -> int:
        """Returns the global step from which epochs of so many steps count: the run has as many as it has trained.

        It is negative if earlier epochs were shorter. Epochs before the global step `since` are left out. Less than a
        step of the epochs trained is trained again.
        """
        run = self.going_on(steps_per_epoch)
        done = run.epochs(self.step) - run.epochs(since)
        return self.step - math.floor(done * steps_per_epoch)


def _step_of(checkpoint):
    return checkpoints.step_of(checkpoint or "") or 0


def _steps_per_epoch(about):
    """Returns `Progress.steps_per_epoch` as run.json tells it; () if it does not."""
    pairs = about.get("steps_per_epoch")
    if pairs is None:
        return _of_first_step(about)
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return ()
    firsts, lengths = [first for first, _ in pairs], [length for _, length in pairs]
    if not (_are_integers(firsts) and _is_steps(lengths) and firsts == sorted(set(firsts))):
        return ()
    return tuple(map(tuple, pairs))


def _of_first_step(about):
    """Returns the steps per epoch of a run of an earlier version, which kept only those since it was last resumed."""
    about = {"first_step": 0} | about
    data, batch_size = about.get("data"), about["settings"].get("batch_size")
    if not has(about, batches_per_step=int, first_step=int) or not has(data, train=int):
        return ()
    numbers = [data["train"], batch_size, about["batches_per_step"]]
    if not _is_steps(numbers) or not _are_integers([about["first_step"]]):
        return ()
    return ((about["first_step"], math.ceil(data["train"] / (batch_size * about["batches_per_step"]))),)


def _are_integers(values):
    return all(isinstance(value, int) and abs(value) <= _MOST_STEPS for value in values)


def _is_steps(values):
    return isinstance(values, list) and _are_integers(values) and all(value > 0 for value in values)
