"""The interface of datasets that training needs."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import tensorflow as tf


class About(NamedTuple):
    """A line of the list of datasets: `size` is the number of examples and what they take on a disk."""

    task: str
    size: str
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """Labelled images to train and to evaluate on, and what to train with unless told otherwise.

    A subclass has the numbers `train_examples` and `eval_examples`, and gives `train_input_fn` and `eval_input_fn`.
    Their elements are batches (images, labels) or, to train on, (images, labels, weights of the examples): images
    float32 RGB of shape (batch, height, width, 3) in [0, 1], labels float32. By the task these are one-hot of shape
    (batch, number of classes); 0 or 1 for each label, in that shape, where `class_names` are the labels; or numbers of
    shape (batch, 1), where `class_names` is empty. Tasks other than classification are chosen by an option `task` of
    `open_dataset`.
    """

    name: str
    task: str = "classification"  # or another of models.TASKS
    class_names: tuple[str, ...]
    default_model: str
    default_epochs: int
    default_batch_size: int = 32  # on each replica
    image_size: tuple[int, int]  # height and width in pixels

    if TYPE_CHECKING:  # at run time they would be the defaults of a subclass's fields

        @property
        def train_examples(self) -> int: ...

        @property
        def eval_examples(self) -> int: ...

    def train_input_fn(
        self, *, image_size: tuple[int, int], batch_size: int, num_epochs: int | None, seed: int | None = None
    ) -> Callable[..., tf.data.Dataset]:
        """Returns an input_fn over the training examples, shuffled anew each epoch; num_epochs None is endless."""
        raise NotImplementedError

    def eval_input_fn(self, *, image_size: tuple[int, int], batch_size: int) -> Callable[..., tf.data.Dataset]:
        """Returns an input_fn over the evaluation examples, once and in order."""
        raise NotImplementedError

    def class_counts(self) -> dict[str, dict[str, int]] | None:
        """Returns {"train" or "eval": {class name: examples}}, or None where only reading all the data would tell."""
        return None

    def label_moments(self) -> tuple[float, float] | None:
        """Returns the mean and the standard deviation of the training labels of a regression; None for other tasks."""
        return None

    def limited(self, limit: int, seed: int = 0) -> Dataset:
        """Returns the dataset with at most `limit` examples to train on and as many to evaluate on: see `stratified`.

        Raises:
          ValueError: the dataset cannot be cut, or `limit` is less than the number of classes.
        """
        raise ValueError(f"{self.name} cannot be limited: its labels are not known before the data is read")


def stratified(examples: Mapping[Any, Mapping[Any, Any]], limit: int, seed: int) -> list[Any]:
    """Returns the examples of {class name: examples}, in order, cut down to `limit` of them in all.

    The classes keep their shares, and none is left without an example. Examples are chosen by hashes of `seed` and of
    their names: the same wherever they lie, and a smaller limit chooses among those of a larger one.

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
        # Evenly spaced from 0 to 1: of all classes together, the first ones are the same share of each.
        ranks += [((rank + 0.5) / len(named) if rank else 0, class_name, name) for rank, name in enumerate(by_hash)]
    chosen = {(class_name, name) for _, class_name, name in sorted(ranks)[:limit]}
    return [
        example
        for class_name, named in examples.items()
        for name, example in named.items()
        if (class_name, name) in chosen
    ]
