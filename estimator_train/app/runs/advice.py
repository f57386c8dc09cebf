"""The table of advice: what a run could try to be faster, or to need less memory, and what is no advice for it.

The diagnosis at the end of a training takes its lines from here. Errors take from here which of the library's remedies
they must not propose; see `errors.SpelledError`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from estimator_train.app.datasets.dataset import Dataset
from estimator_train.app.datasets.images import ImageFiles
from estimator_train.app.errors import SettingError, spelled
from estimator_train.app.models.backbones import CLASSES, default_freeze
from estimator_train.app.runs.fields import given_of
from estimator_train.app.runs.rules import check_rules
from estimator_train.app.runs.spec import RULES, STORED, Settings, Training


class Advice(NamedTuple):
    """A setting to try, or something else without a name."""

    name: str  # as in rules: "name=value" if it is about one value
    limit: str | None  # that it raises: "input", "compute", "evaluation" or "checkpoint"
    words: str = ""  # in a line about the limit, as in `spelled`
    value: Any = None  # what a run that follows it may have
    is_number: bool = False  # whether a run that has it already may try another value
    saves_memory: bool = False  # the library has the words for this


ADVICE = (
    Advice("cache", "input", "{cache=memory} or {cache=FOLDER}, which decode the images once", "memory"),
    Advice("fast", "input", "{fast}, if the files are much larger than {image_size}", True),
    Advice("", "input", "more CPU cores, or the workers of a tf.data service"),
    Advice("cache=features", "compute", "{cache=features}, if the model's first layers are frozen", "features"),
    Advice(
        *("mixed_precision", "compute", "{mixed_precision=bfloat16}, on hardware that supports it", "bfloat16"),
        saves_memory=True,
    ),
    Advice("gpus", "compute", "{gpus=N}", 2),
    Advice(
        *("batch_size", "compute", "a larger {batch_size}, for as many steps", 2), is_number=True, saves_memory=True
    ),
    Advice("recompute", None, value=True, saves_memory=True),
    Advice("accumulate_steps", None, value=2, is_number=True, saves_memory=True),
    Advice("evaluate_every", "evaluation", "{evaluate_every} with more steps", 2, is_number=True),
    Advice("async_checkpoints", "checkpoint", "{async_checkpoints}", True),
    Advice("save_checkpoints_steps", "checkpoint", "{save_checkpoints_steps} with more steps", 2, is_number=True),
)
SAVING_MEMORY = frozenset(each.name for each in ADVICE if each.saves_memory)
_HAS_BFLOAT16 = (8, 0)  # compute capability; https://developer.nvidia.com/cuda-gpus


def lines_for(limit: str, unfit: Collection[str] = ()) -> list[str]:
    """Returns what to try against a `limit` of `Advice`, without what is named in `unfit`.

    >>> lines_for("checkpoint", unfit=["save_checkpoints_steps"])
    ['async_checkpoints']
    """
    return [spelled(each.words) for each in ADVICE if each.limit == limit and each.name not in unfit]


def unfit_for(
    settings: Settings, training: Training, data: Dataset | None, gpus: Sequence[tuple[int, int] | None]
) -> set[str]:
    """Returns the names of advice that a run follows already, or that its other settings, model or machine refuse.

    `gpus` has the compute capability of each GPU that the training could have, None if it is unknown.
    """
    return {
        *_unfit_for_settings(settings, training),
        *_unfit_for_data(settings, training, data),
        *_unfit_for_model(settings),
        *_unfit_for_machine(training, gpus),
    }


def _unfit_for_settings(settings: Settings, training: Training) -> Iterator[str]:
    given = given_of(vars(settings) | vars(training), *STORED)
    for each in ADVICE:
        name, _, only_value = each.name.partition("=")
        follows = name in given and not each.is_number
        if only_value and given.get(name) not in (None, only_value):
            follows = False
        if follows or not _fits(given | {name: each.value}):
            yield each.name


def _fits(settings: dict[str, Any]) -> bool:
    try:
        check_rules(settings, RULES)
    except SettingError:
        return False
    return True


def _unfit_for_data(settings: Settings, training: Training, data: Dataset | None) -> Iterator[str]:
    if not (data and isinstance(data.train, ImageFiles)):
        yield from ("cache", "cache=features", "fast")
    if data and settings.batch_size * training.num_replicas >= data.train_examples:  # a batch has all of them
        yield "batch_size"


def _unfit_for_model(settings: Settings) -> list[str]:
    """Frozen first layers have features to cache; a function's model may be of a class that others do not support."""
    if ":" in settings.model:
        return ["mixed_precision", "recompute"]
    freeze = settings.freeze or default_freeze(settings.model, settings.weights)
    if settings.model not in CLASSES or freeze == "none":
        return ["cache=features"]
    return []


def _unfit_for_machine(training: Training, gpus: Sequence[tuple[int, int] | None]) -> Iterator[str]:
    if training.jit_compile or len(gpus) <= (training.gpus or 1):
        yield "gpus"
    if not gpus or any(capability is None or capability < _HAS_BFLOAT16 for capability in gpus):
        yield "mixed_precision"
    if not training.evaluate_every:
        yield "evaluate_every"
