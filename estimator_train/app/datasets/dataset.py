"""A dataset: up to three parts, and default settings for training."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from estimator_train._engine.host.files import quoted
from estimator_train._engine.host.html_table import html_table
from estimator_train.app.datasets.part import InputFn, Part, UnknownLabelsError
from estimator_train.app.errors import SettingError

# Defaults for photographs, with the image size of pretrained models.
PHOTOGRAPHS: Mapping[str, Any] = {"default_model": "mobilenet_v2", "image_size": (224, 224)}
DEFAULT_STEPS = 300
_FEWEST_EPOCHS = 5


class About(NamedTuple):
    """A row in the list of datasets; `size` is the number of examples and their size on disk."""

    task: str
    size: str
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Dataset:
    """Labelled images for training and evaluation, with default settings for training.

    Elements of the input_fns are batches (images, labels) or, for training, (images, labels, example weights). Images
    are float32 RGB of shape (batch, height, width, 3) in [0, 1]. Labels are float32 and depend on the task:

    - classification: one-hot, of shape (batch, number of classes);
    - multilabel: 0 or 1 for each label, of shape (batch, number of labels); `class_names` are the labels;
    - regression: numbers of shape (batch, 1); `class_names` is empty.

    Datasets that support several tasks have an option `task` in `open_dataset`.

    Attributes:
      train, eval: the `Part` to train on, and the one to evaluate on.
      validation: the `Part` that chooses a checkpoint, apart from the final evaluation; None if there is none.
      default_epochs: None for as many as make some `DEFAULT_STEPS`; see `epochs_for`.
      default_batch_size: on each replica.
      image_size: height and width in pixels.
      validation_name: where the validation examples come from, such as val.
      left_out: names of the parts of the data that are not used.
      other_files: {ending: number of files of formats that are not decoded}.
      columns: {name of a column of a table: what it is taken for}, of those with other names.
    """

    name: str
    task: str = "classification"  # or another of models.TASKS
    class_names: tuple[str, ...]
    default_model: str
    default_epochs: int | None = None
    default_batch_size: int = 32
    image_size: tuple[int, int]
    train: Part
    eval: Part
    validation: Part | None = None
    validation_name: str = ""
    left_out: tuple[str, ...] = ()
    other_files: Mapping[str, int] = dataclasses.field(default_factory=dict)
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if again := [name for name, number in collections.Counter(self.class_names).items() if number > 1]:
            raise ValueError(f"{self.name} has several classes of the name {quoted(again)}; rename them")

    @property
    def train_examples(self) -> int:
        """Number of examples to train on."""
        return self.train.count

    @property
    def eval_examples(self) -> int:
        """Number of examples to evaluate on."""
        return self.eval.count

    @property
    def validation_examples(self) -> int:
        """Number of examples that choose a checkpoint."""
        return self.validation.count if self.validation else 0

    def __repr__(self) -> str:
        numbers = f"{self.train_examples} examples to train on and {self.eval_examples} to evaluate on"
        return f"<{type(self).__name__} {self.name}: {numbers}>"

    def _repr_html_(self) -> str:
        counts = self.class_counts() or {}
        by_class = {}
        if counts:
            for name in self.class_names:
                by_class[name] = ", ".join(f"{side} {each.get(name, 0)}" for side, each in counts.items())
        examples = {"examples": f"train {self.train_examples}, eval {self.eval_examples}"}
        size = {"image size": "×".join(map(str, self.image_size))}
        return html_table(self.name, {"task": self.task} | size | examples | by_class)

    def train_input_fn(
        self,
        *,
        image_size: tuple[int, int],
        batch_size: int,
        num_epochs: int | None,
        seed: int | None = None,
        **decoding: Any,
    ) -> InputFn:
        """Returns an input_fn over the training examples, reshuffled each epoch; num_epochs None repeats forever.

        Image files take `decoding`, too: cache, fast, resize and orient of `input_fns.image_files`.
        """
        options = {"batch_size": batch_size, "num_epochs": num_epochs, "shuffle": True, "seed": seed, **decoding}
        return self.train.input_fn(image_size, **options)

    def eval_input_fn(self, *, image_size: tuple[int, int], batch_size: int, **decoding: Any) -> InputFn:
        """Returns an input_fn over the evaluation examples, once and in order; see `train_input_fn`."""
        return self.eval.input_fn(image_size, batch_size=batch_size, num_epochs=1, **decoding)

    def epochs_for(self, batch_size: int) -> int:
        """Returns the default number of epochs in batches of a size, which replicas and accumulation leave as it is.

        >>> datasets.open_dataset("synthetic_oct", "scans", draw=False).epochs_for(32)
        12
        """
        if self.default_epochs:
            return self.default_epochs
        return max(_FEWEST_EPOCHS, math.ceil(DEFAULT_STEPS / math.ceil(self.train_examples / batch_size)))

    def to_choose_on(self) -> Dataset:
        """Returns the dataset with the validation examples, if there are any, as its evaluation examples."""
        if self.validation is None:
            return self
        return dataclasses.replace(self, eval=self.validation, validation=None)

    def with_validation(self, share: float) -> Dataset:
        """Returns the dataset with a share of its training examples held out of each class as validation examples.

        They replace others that it may have; a share of 0 leaves it without any. Raises ValueError if the dataset
        cannot hold out any, or a class would have no training examples left.
        """
        if not share:
            return self._validating(self.train, None)
        try:
            return self._validating(*self.train.split(share))
        except UnknownLabelsError as error:
            text = "{0} cannot hold out validation examples: give it its own, or {validation=0}"
            raise SettingError(text, self.name) from error

    def holding_out(self, rows: Iterable[int]) -> Dataset:
        """Returns the dataset with some of its training examples, by index, as validation examples, instead of others.

        >>> data = datasets.open_dataset("synthetic_oct", "scans", draw=False).holding_out([0, 1])
        >>> data.train_examples, data.validation_examples
        (798, 2)
        """
        return self._validating(*self.train.parted(rows))

    def _validating(self, train, validation):
        left_out = {*self.left_out, *filter(None, [self.validation_name])}
        return dataclasses.replace(
            self, train=train, validation=validation, validation_name="", left_out=tuple(sorted(left_out))
        )

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by the names of their sides: "train", "eval" and, if there are such examples, "validation"."""
        parts = {"train": self.train, "eval": self.eval, "validation": self.validation}
        return {side: part for side, part in parts.items() if part is not None}

    def class_counts(self) -> dict[str, dict[str, int]] | None:
        """Returns {side: {class name: examples}}, or None if counting would mean reading all the data.

        An example with several labels counts for each of them. Regression has no classes to count.
        """
        counts = {side: part.counts() for side, part in self.parts.items()}
        known = {side: each for side, each in counts.items() if each is not None}
        return known if len(known) == len(counts) else None

    def image_paths(self) -> dict[str, list[str]] | None:
        """Returns {side: paths}, or None unless every example is an image file of its own; see `class_counts`."""
        paths = {side: list(part.paths) for side, part in self.parts.items() if part.paths}
        return paths or None

    def label_moments(self) -> tuple[float, float] | None:
        """Returns the mean and standard deviation of the training labels for regression; None for other tasks."""
        return self.train.moments()

    def limited(self, limit: int, seed: int = 0) -> Dataset:
        """Returns the dataset with at most `limit` examples on each side; see `part.stratified`.

        Raises ValueError if it cannot be limited, or `limit` is less than the number of classes.
        """
        try:
            cut: dict[str, Any] = {side: part.limited(limit, seed) for side, part in self.parts.items()}
        except UnknownLabelsError as error:
            raise ValueError(f"{self.name} cannot be limited: its labels are unknown until the data is read") from error
        return dataclasses.replace(self, **cut)


def check_classes(place: Any, found: Iterable[str], class_names: Iterable[str]) -> None:
    """Raises ValueError, which names the classes that differ, unless `place` holds the classes of a run.

    >>> check_classes("more_scans", ["CNV", "DME"], ["DME", "CNV"])
    """
    if faults := differences(found, class_names, "the run does not know"):
        raise ValueError(f"{place} does not have the classes of the run: {'; '.join(faults)}")


def differences(found: Iterable[str], class_names: Iterable[str], besides: str) -> list[str]:
    """Says which of the classes are not `found`, and which others are; the text of these begins with `besides`."""
    lists = {"it lacks": set(class_names) - set(found), besides: set(found) - set(class_names)}
    return [f"{text} {quoted(sorted(names))}" for text, names in lists.items() if names]


def sides(parts: Mapping[str, Part]) -> dict[str, Any]:
    """Returns the arguments of `Dataset` for its parts, by name and in order: to train, evaluate and maybe validate on.

    >>> list(sides({"train": Part(), "test": Part(), "val": Part()}))
    ['train', 'eval', 'validation', 'validation_name']
    """
    train, evaluated, *others = parts.items()
    arguments: dict[str, Any] = {"train": train[1], "eval": evaluated[1]}
    for name, validation in others:
        arguments |= {"validation": validation, "validation_name": name}
    return arguments


def default_settings(height: int | None, width: int | None) -> dict[str, Any]:
    """Returns the default settings for images of a size, or of several sizes if it is None, such as the model.

    >>> default_settings(28, 28)
    {'default_model': 'small_cnn', 'image_size': (28, 28)}
    """
    if height is None or width is None or max(height, width) >= 96:
        return dict(PHOTOGRAPHS)
    return {"default_model": "small_cnn", "image_size": (height, width)}
