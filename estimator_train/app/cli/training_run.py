"""A training on a dataset or an input_fn, and the steps that its epochs take, before and after it is resumed."""

import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple

from estimator_train._engine.host.cluster_task import ClusterTask
from estimator_train.app.cli.settings import Settings, Training
from estimator_train.app.cli.stored_settings import load_training
from estimator_train.app.runs import run_file
from estimator_train.app.runs.parsed_json import has

_RATE_TEST_STEPS = 100
_MOST_STEPS = 2**63 - 1  # the global step is an int64


class Progress(NamedTuple):
    """How far a run has been trained, as its newest checkpoint and run.json say."""

    step: int
    last_step: int
    batches_per_step: int
    examples: int
    first_step: int  # from which its epochs count; see `CallbacksHook`


@dataclasses.dataclass(frozen=True)
class Run:
    """A training with all that its flags leave open."""

    settings: Settings
    training: Training
    data: Any  # the dataset, or None for an input_fn
    model_dir: str
    task: ClusterTask  # of this process in a cluster
    verbosity: str  # "quiet", "normal" or "verbose"
    finds_rate: bool  # whether it only tries learning rates, and keeps nothing else
    sources: dict[str, str]  # what has set facts of the plan that no flag sets, such as a variable, by these facts
    missing: str | None = None  # in a dry run, what is missing of data that is not here; the plan does without it
    ended_phases: tuple[int, ...] = ()  # global steps at which its first --phases have ended

    @property
    def is_quiet(self) -> bool:
        """Whether to show only errors and the final result."""
        return self.verbosity == "quiet"

    @property
    def batches_per_step(self) -> int:
        """Number of batches, over all replicas, that one global step takes."""
        return self.training.accumulate_steps * self.training.num_replicas

    @property
    def validation_examples(self) -> int:
        """Number of the examples that choose a checkpoint; 0 if the evaluation examples do, as with an input_fn."""
        if self.data is None:
            return 0
        return self.data.validation_examples

    @functools.cached_property
    def steps_per_epoch(self) -> int | None:
        """Number of global steps in one pass over the training data; None for an input_fn."""
        return self.data and math.ceil(self.data.train_examples / (self.settings.batch_size * self.batches_per_step))

    @functools.cached_property
    def last_step(self) -> int | None:
        """Global step at which training ends; None if it ends with the input_fn's data."""
        if self.finds_rate:
            return _RATE_TEST_STEPS
        if self.training.max_steps or not self.data:
            return self.training.max_steps
        if self.settings.phases:
            return self.steps_of_parts[-1][-1]
        return self._end_of_epochs()

    @functools.cached_property
    def steps_of_parts(self) -> list[tuple[int, int | None]]:
        """First and last global step of each of the --phases, or of the whole training."""
        phases = self.settings.in_phases()
        if not phases:
            return [(0, self.last_step)]
        ends = [0, *self.ended_phases[: len(phases)]]
        for _, phase in phases[len(ends) - 1 :]:
            ends.append(ends[-1] + phase.epochs * self.steps_per_epoch)
        return list(itertools.pairwise(ends))

    def _end_of_epochs(self):
        """Returns the last step of a run that may be resumed on other devices, where a step has more or fewer batches.

        The run's last step until now says how many batches were left of its epochs at the step that it is at.
        """
        steps, progress = self.training.epochs * self.steps_per_epoch, self._until_now
        if progress is None:
            return steps
        before = load_training(self.model_dir)
        if progress.examples != self.data.train_examples or not before.epochs or before.max_steps:
            return steps
        now = self.batches_per_step
        more = (self.training.epochs - before.epochs) * self.steps_per_epoch * now
        left = (progress.last_step - progress.step) * progress.batches_per_step + more
        return max(progress.step + math.ceil(left / now), 1)  # perhaps an earlier one, if there are fewer epochs now

    @functools.cached_property
    def first_step(self) -> int:
        """Global step from which epochs count in today's steps: those until now may have had more or fewer batches."""
        progress = self._until_now
        if progress is None or not self.data:
            return 0
        before = math.ceil(progress.examples / (self.settings.batch_size * progress.batches_per_step))
        return progress.step - round((progress.step - progress.first_step) / before * self.steps_per_epoch)

    @functools.cached_property
    def _until_now(self) -> Progress | None:
        """The `Progress` of a run that is resumed, or None if it has no step yet, or if run.json does not have it."""
        step, path = run_file.newest_step(self.model_dir), run_file.path_in(self.model_dir)
        if step == 0 or not path.exists():
            return None
        stored = {"first_step": 0} | run_file.read(path)
        data = stored.get("data")
        if not has(stored, last_step=int, batches_per_step=int, first_step=int) or not has(data, train=int):
            return None
        progress = Progress(step, stored["last_step"], stored["batches_per_step"], data["train"], stored["first_step"])
        last_batch = progress.last_step * progress.batches_per_step
        if min(progress[:4]) < 1 or max(last_batch, abs(progress.first_step)) > _MOST_STEPS:
            return None
        return progress
