"""A training on a dataset or an input_fn, and the steps that its epochs take, before and after it is resumed."""

import dataclasses
import functools
import itertools
import math
from typing import Any

from estimator_train._engine.host.cluster_task import ClusterTask
from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.errors import SettingError
from estimator_train.app.runs.progress import Progress
from estimator_train.app.runs.spec import Settings, Training

_RATE_TEST_STEPS = 100


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A training with all that its settings leave open: what the plan shows, and what is then done."""

    settings: Settings
    training: Training
    data: Dataset | None  # None for an input_fn
    model_dir: str
    task: ClusterTask  # of this process in a cluster
    verbosity: str  # "quiet", "normal" or "verbose"
    finds_rate: bool  # whether it only tries learning rates, and keeps nothing else
    sources: dict[str, str]  # what has set facts of the plan that no flag sets, such as a variable, by these facts
    missing: str | SettingError | None = None  # what a plan does without, of data that is not here
    progress: Progress = Progress()  # how far it has come until now
    command: str | None = None  # the command line; None for a run in Python
    chooses_cache: bool = False  # whether the command has chosen its cache, not a flag or the run that is repeated

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
    def steps_per_epoch(self) -> Any:
        """Number of global steps in one pass over the training data, an int; None for an input_fn."""
        return self.data and math.ceil(
            self.data.train_examples / ((self.settings.batch_size or 1) * self.batches_per_step)
        )

    @functools.cached_property
    def last_step(self) -> int | None:
        """Global step at which training ends; None if it ends with the input_fn's data."""
        if self.finds_rate:
            return _RATE_TEST_STEPS
        if self.training.max_steps or not self.data:
            return self.training.max_steps
        if self.settings.phases:
            return self.steps_of_stages[-1][-1]
        assert self.training.epochs is not None  # a dataset has a default
        return self._end_of_epochs(self.training.epochs)

    @functools.cached_property
    def steps_of_stages(self) -> list[tuple[int, int | None]]:
        """First and last global step of each of the --phases, or of the whole training."""
        phases = self.settings.in_phases()
        if not phases:
            return [(0, self.last_step)]
        ends = [0, *self.progress.ended_phases[: len(phases)]]
        for number, (_, phase) in enumerate(phases[len(ends) - 1 :]):
            if number == 0:
                ends.append(self._end_of_epochs(phase.epochs, since=ends[-1]))
            else:
                ends.append(ends[-1] + phase.epochs * self.steps_per_epoch)
        return list(itertools.pairwise(ends))

    @property
    def first_step(self) -> int:
        """Global step from which epochs count in today's steps: those until now may have had more or fewer images."""
        if not self.data:
            return 0
        return self.progress.first_step(self.steps_per_epoch)

    def _end_of_epochs(self, epochs: int, since: int = 0) -> int:
        """Returns the step at which so many epochs end, at least 1: perhaps an earlier one than that of today."""
        return max(1, self.progress.first_step(self.steps_per_epoch, since) + epochs * self.steps_per_epoch)
