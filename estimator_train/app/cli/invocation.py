"""The flags of one call of `train`, which are not part of the run."""

import dataclasses

from estimator_train.app.running.directories import MODEL_DIR_VARIABLES
from estimator_train.app.runs import values as kinds
from estimator_train.app.runs.fields import rules_of, setting
from estimator_train.app.runs.rules import Excludes
from estimator_train.app.runs.spec import MOST_USED, OUTPUT, STORED, TRAINING

_OF_RATE = ("learning_rate", "schedule", "warmup_steps", "scale_learning_rate", "ema")
_OF_RESULT = (
    *("resume", "evaluate_every", "early_stopping", "keep_best"),
    *("epochs", "max_steps", "save_checkpoints_steps"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Invocation:
    """Settings of one call of the command, which are not part of the run."""

    find_learning_rate: bool = setting(
        TRAINING,
        None,
        Excludes(_OF_RATE, "{self} chooses the rates itself; leave out {other}"),
        Excludes(_OF_RESULT, "{self} does not keep what it trains; leave out {other}"),
    )
    """Plot the loss over rising learning rates, suggest a rate, and stop."""
    model_dir: str | None = setting(MOST_USED, kinds.Directory(), envvar=MODEL_DIR_VARIABLES)
    """Directory for checkpoints and events.  [default: runs/DATASET]"""
    resume: bool = setting(MOST_USED)
    """Continue the run in --model-dir, or start one on the given data if there is none."""
    config: str | None = setting(OUTPUT, kinds.File("FILE"))
    """The run.json of a run to repeat; other flags override it."""
    trust_run: bool = setting(OUTPUT)
    """Run the functions, write to the folders and download the data that an unknown run.json names."""
    dry_run: bool = setting(OUTPUT)
    """Print the plan and do nothing."""
    quiet: bool = setting(OUTPUT, None, Excludes(("verbose",)))
    """Show only errors and the final result."""
    verbose: bool = setting(OUTPUT)
    """Also show TensorFlow's INFO log."""


TABLE = (*STORED, Invocation)
RULES = rules_of(*TABLE)
