"""The interface of datasets that training needs."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from estimator_train._engine.host.html_table import html_table

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


class About(NamedTuple):
    """A row in the list of datasets; `size` is the number of examples and their size on disk."""

    task: str
    size: str
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """Labelled images for training and evaluation, with default settings for training.

    A subclass defines the numbers `train_examples` and `eval_examples`, and either `_input_fn` or the two methods that
    call it. Their elements are batches (images, labels) or, for training, (images, labels, example weights). Images
    are float32 RGB of shape (batch, height, width, 3) in [0, 1]. Labels are float32 and depend on the task:

    - classification: one-hot, of shape (batch, number of classes);
    - multilabel: 0 or 1 for each label, of shape (batch, number of labels); `class_names` are the labels;
    - regression: numbers of shape (batch, 1); `class_names` is empty.

    Datasets that support several tasks have an option `task` in `open_dataset`.
    """

    name: str
    task: str = "classification"  # or another of models.TASKS
    class_names: tuple[str, ...]
    default_model: str
    default_epochs: int
    default_batch_size: int = 32  # on each replica
    image_size: tuple[int, int]  # height and width in pixels
    validation_name: str = ""  # where the validation examples come from, such as val

    if TYPE_CHECKING:  # at run time they would be the defaults of a subclass's fields

        @property
        def train_examples(self) -> int: ...

        @property
        def eval_examples(self) -> int: ...

    @property
    def validation_examples(self) -> int:
        """Number of examples that choose a checkpoint, apart from those of the final evaluation."""
        return 0

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__repr__" not in vars(cls):  # else the dataclass decorator would write one that lists every path
            cls.__repr__ = Dataset.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        numbers = f"{self.train_examples} examples to train on and {self.eval_examples} to evaluate on"
        return f"<{type(self).__name__} {self.name}: {numbers}>"

    def _repr_html_(self) -> str:
        counts = self.class_counts() or {}
        by_class = {
            name: ", ".join(f"{side} {each.get(name, 0)}" for side, each in counts.items())
            for name in (self.class_names if counts else ())
        }
        examples = {"examples": f"train {self.train_examples}, eval {self.eval_examples}"}
        size = {"image size": "×".join(map(str, self.image_size))}
        return html_table(self.name, {"task": self.task} | size | examples | by_class)

    def train_input_fn(
        self, *, image_size: tuple[int, int], batch_size: int, num_epochs: int | None, seed: int | None = None
    ) -> Callable[..., tf.data.Dataset]:
        """Returns an input_fn over the training examples, reshuffled each epoch; num_epochs None repeats forever."""
        options = {"batch_size": batch_size, "num_epochs": num_epochs, "shuffle": True, "seed": seed}
        return self._input_fn("train", image_size, **options)

    def eval_input_fn(self, *, image_size: tuple[int, int], batch_size: int) -> Callable[..., tf.data.Dataset]:
        """Returns an input_fn over the evaluation examples, once and in order."""
        return self._input_fn("eval", image_size, batch_size=batch_size, num_epochs=1)

    def _input_fn(self, side: str, image_size: tuple[int, int], **options: Any) -> Callable[..., tf.data.Dataset]:
        """Returns an input_fn over the "train" or "eval" examples; `options` are those of `input_fns.arrays`."""
        raise NotImplementedError

    def to_choose_on(self) -> Dataset:
        """Returns the dataset with the validation examples, if there are any, as its evaluation examples."""
        return self

    def with_validation(self, share: float) -> Dataset:
        """Returns the dataset with a share of its training examples held out of each class as validation examples.

        They replace others that it may have; a share of 0 leaves it without any.

        Raises:
          ValueError: the dataset cannot hold out any, or a class would have no training examples left.
        """
        raise ValueError(f"{self.name} cannot hold out validation examples: give it its own, or --validation 0")

    def class_counts(self) -> dict[str, dict[str, int]] | None:
        """Returns {side: {class name: examples}}, or None if counting would mean reading all the data.

        The sides are "train", "eval" and, if there are validation examples, "validation".
        """
        return None

    def image_paths(self) -> dict[str, list[str]] | None:
        """Returns {side: paths}, or None unless every example is an image file of its own; see `class_counts`."""
        return None

    def label_moments(self) -> tuple[float, float] | None:
        """Returns the mean and standard deviation of the training labels for regression; None for other tasks."""
        return None

    def limited(self, limit: int, seed: int = 0) -> Dataset:
        """Returns the dataset with at most `limit` examples on each side; see `stratified`.

        Raises:
          ValueError: the dataset cannot be limited, or `limit` is less than the number of classes.
        """
        raise ValueError(f"{self.name} cannot be limited: its labels are unknown until the data is read")


def count_classes(labels: np.ndarray, class_names: Sequence[str]) -> dict[str, int]:
    """Returns {class name: number of labels}, for class indices.

    >>> count_classes(np.array([0, 2, 2]), ["cat", "dog", "owl"])
    {'cat': 1, 'dog': 0, 'owl': 2}
    """
    import numpy as np  # the command answers --help without it

    return dict(zip(class_names, np.bincount(labels, minlength=len(class_names)).tolist(), strict=True))


def stratified_rows(labels: np.ndarray, limit: int, seed: int) -> list[int]:
    """Like `stratified`, for an array of class indices: returns the chosen rows, in order."""
    return sorted(stratified(_rows_by_label(labels), limit, seed))


def _rows_by_label(labels):
    import numpy as np

    rows = {int(label): np.flatnonzero(labels == label).tolist() for label in np.unique(labels)}
    return {label: dict(zip(each, each, strict=True)) for label, each in rows.items()}


def check_classes(place: Any, found: Iterable[str], class_names: Iterable[str]) -> None:
    """Raises ValueError, which names the classes that differ, unless `place` holds the classes of a run.

    >>> check_classes("more_scans", ["CNV", "DME"], ["DME", "CNV"])
    """
    lacking, unknown = sorted(set(class_names) - set(found)), sorted(set(found) - set(class_names))
    texts = [f"it lacks {', '.join(lacking)}"] * bool(lacking)
    texts += [f"the run does not know {', '.join(unknown)}"] * bool(unknown)
    if texts:
        raise ValueError(f"{place} does not have the classes of the run: {'; '.join(texts)}")


def held_out(examples: Mapping[Any, Mapping[Any, Any]], share: float) -> list[Any]:
    """Returns a `share` of the examples of each class, at least one, in order; see `stratified`.

        >>> held_out({"cat": {name: name for name in "abcd"}, "dog": {name: name for name in "ef"}}, 0.3)
        ['b', 'e']

    Raises:
      ValueError: a class has no other example.
    """
    if not share:
        return []
    number = max(round(share * sum(map(len, examples.values()))), len(examples))
    chosen = stratified(examples, number, seed=0)
    for class_name, named in examples.items():
        if named and set(named.values()) <= set(chosen):
            raise ValueError(f"class {class_name} has too few training examples, {len(named)}, to hold out {share:g}")
    return chosen


def split_rows(labels: np.ndarray, share: float) -> tuple[list[int], list[int]]:
    """Returns the rows to keep and those to hold out, see `held_out`, for an array of class indices.

    >>> kept, chosen = split_rows(np.array([0, 0, 0, 1, 1, 1]), 0.3)
    >>> len(kept), len(chosen)
    (4, 2)
    """
    chosen = sorted(held_out(_rows_by_label(labels), share))
    return sorted(set(range(len(labels))) - set(chosen)), chosen


def default_settings(height: int | None, width: int | None) -> dict[str, Any]:
    """Returns the default settings for images of a size, or of several sizes if it is None, such as the model.

    >>> default_settings(28, 28)
    {'default_model': 'small_cnn', 'default_epochs': 5, 'image_size': (28, 28)}
    """
    if height is None or width is None or max(height, width) >= 96:
        return {"default_model": "mobilenet_v2", "default_epochs": 5, "image_size": (224, 224)}
    return {"default_model": "small_cnn", "default_epochs": 5, "image_size": (height, width)}


def stratified(examples: Mapping[Any, Mapping[Any, Any]], limit: int, seed: int) -> list[Any]:
    """Returns at most `limit` examples, in order, chosen so that classes keep their proportions.

    Every class keeps at least one example. The choice depends on hashes of `seed` and the examples' names, not on where
    the files are, and a smaller limit chooses a subset of a larger one's examples.

        >>> pets = {"cat": {name: name for name in "abcd"}, "dog": {name: name for name in "ef"}}
        >>> len(stratified(pets, 3, seed=0))
        3

    Args:
      examples: {class name: {name: example}}.

    Raises:
      ValueError: `limit` is less than the number of classes.
    """
    if limit < len(examples):
        raise ValueError(f"limit {limit} is less than one example for each of the {len(examples)} classes")
    ranks = []
    for class_name, named in examples.items():
        by_hash = sorted(named, key=lambda name: hashlib.sha256(os.fsencode(f"{seed} {name}")).digest())
        # Ranks are evenly spaced from 0 to 1 in each class, so the lowest overall are the same share of every class.
        ranks += [((rank + 0.5) / len(named) if rank else 0, class_name, name) for rank, name in enumerate(by_hash)]
    chosen = {(class_name, name) for _, class_name, name in sorted(ranks)[:limit]}
    return [
        example
        for class_name, named in examples.items()
        for name, example in named.items()
        if (class_name, name) in chosen
    ]
