"""A part of a dataset: the examples to train on, those to validate with, or those to evaluate on."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from estimator_train._engine.host.files import quoted
from estimator_train.app.datasets.held_out import VALIDATION, holds_out_by_rank, is_held_out

if TYPE_CHECKING:
    import tensorflow as tf
    from typing_extensions import Self  # of mypy; typing has it from Python 3.11 on


class InputFn(Protocol):
    """A function that returns a `tf.data.Dataset`, given those of an Estimator's arguments that it asks for."""

    def __call__(self, *args: Any, **kwargs: Any) -> tf.data.Dataset: ...


class UnknownLabelsError(Exception):
    """Examples cannot be chosen by their classes, because their labels are unknown until the data is read."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Labelled images; a subclass defines `input_fn`, and `PER_EXAMPLE` or `limited` and `split`. See `ImageArrays`."""

    PER_EXAMPLE: ClassVar[tuple[str, ...]]  # the attributes that have a value for each example, or None

    class_names: tuple[str, ...] = ()  # in the order of their indices
    labels: Any = None  # a list or an array of class indices; None if they are unknown until the data is read
    paths: list[str] = dataclasses.field(default_factory=list)  # empty if the examples are not files of their own
    number: int | None = None  # of the examples, where labels are unknown

    @property
    def count(self) -> int:
        """Number of examples."""
        if self.number is not None:
            return self.number
        return len(self.labels)

    def input_fn(self, image_size: tuple[int, int], **options: Any) -> InputFn:
        """Returns an input_fn over the examples, with the elements of `dataset.Dataset`.

        `options` are batch_size, num_epochs, shuffle and seed of `input_fns.arrays`.
        """
        raise NotImplementedError

    def take(self, rows: Sequence[int]) -> Self:
        """Returns the part with some of its examples, by their sorted indices."""
        return dataclasses.replace(self, **{name: _taken(getattr(self, name), rows) for name in self.PER_EXAMPLE})

    def names(self) -> Iterable[Hashable]:
        """Returns different names of the examples, which decide what `limited` chooses, wherever the files are."""
        return range(self.count)

    def own_names(self) -> Iterable[Hashable]:
        """Returns the name of each example by which it is held out; it does not depend on which others there are."""
        return self.names()

    def groups(self) -> list[Hashable]:
        """Returns the group of each example, such as its class; groups keep their proportions.

        Raises UnknownLabelsError if the data has to be read first.
        """
        if self.labels is None:
            raise UnknownLabelsError
        return [int(label) for label in self.labels]

    def counts(self) -> dict[str, int] | None:
        """Returns {class name: number of examples}, or None if counting would mean reading all the data."""
        if self.labels is None:
            return None
        numbers = collections.Counter(self.groups())
        return {name: numbers[index] for index, name in enumerate(self.class_names)}

    def moments(self) -> tuple[float, float] | None:
        """Returns the mean and standard deviation of labels that are numbers; None for others."""
        return None

    def limited(self, limit: int, seed: int) -> Part:
        """Returns the part with at most `limit` examples; see `stratified` and, for the errors, `groups`."""
        return self.take(sorted(stratified(self._rows_by_group(), limit, seed)))

    def split(self, share: float, purpose: str = VALIDATION) -> tuple[Part, Part]:
        """Returns the part without a `share` of its examples, and a part of these.

        The names of the examples decide for each purpose; see `held_out.is_held_out`. Raises ValueError if none are
        held out or a class would have no examples left, and UnknownLabelsError as `groups`.
        """
        if holds_out_by_rank():
            return self.split_by_rank(share)
        self.groups()
        names = enumerate(self.own_names())
        kept, held = self.parted(row for row, name in names if is_held_out(name, share, purpose))
        check_sides(self, kept, held, purpose)
        return kept, held

    def split_by_rank(self, share: float) -> tuple[Part, Part]:
        """Returns what `split` returned before: at least one example of each group is held out."""
        return self.parted(held_out(self._rows_by_group(), share, self.class_names))

    def parted(self, rows: Iterable[int]) -> tuple[Self, Self]:
        """Returns the part without the examples at some indices, and a part of these."""
        chosen = set(rows)
        return self.take([row for row in range(self.count) if row not in chosen]), self.take(sorted(chosen))

    def _rows_by_group(self):
        rows: dict[Hashable, dict[Hashable, int]] = {}
        for row, (group, name) in enumerate(zip(self.groups(), self.names(), strict=True)):
            rows.setdefault(group, {})[name] = row
        return rows


def _taken(values, rows):
    if values is None:
        return None
    if isinstance(values, list):
        return [values[row] for row in rows]
    return values[rows]


def check_sides(whole: Part, kept: Part, held: Part, purpose: str, by: str = "name") -> None:
    """Raises ValueError if no example is held out, or all of a group are; `by` says what holds them out."""
    remedy = "add some, or divide them yourself"
    if not held.count:
        raise ValueError(f"none of the {whole.count} examples is held out for {purpose} by its {by}; {remedy}")
    if lost := set(whole.groups()) - set(kept.groups()):
        whose = "all examples"
        if names := [name for index, name in enumerate(whole.class_names) if index in lost]:
            whose += f" of class {quoted(names)}"
        raise ValueError(f"{whose} are held out for {purpose} by their {by}; {remedy}")


def held_out(examples: Mapping[Any, Mapping[Any, Any]], share: float, class_names: Sequence[str]) -> list[Any]:
    """Returns a `share` of each class, at least one example, as `stratified`; raises ValueError if it has no other.

    >>> held_out({0: {name: name for name in "abcd"}, 1: {name: name for name in "ef"}}, 0.3, ["cat", "dog"])
    ['b', 'e']
    """
    number = max(round(share * sum(map(len, examples.values()))), len(examples))
    chosen = stratified(examples, number, seed=0)
    for group, named in examples.items():
        if set(named.values()) <= set(chosen):
            whose = "the data has" if group is None else f"class {class_names[group]!r} has"
            raise ValueError(f"{whose} too few training examples, {len(named)}, to hold out {share:g}")
    return chosen


def stratified(examples: Mapping[Any, Mapping[Any, Any]], limit: int, seed: int) -> list[Any]:
    """Returns at most `limit` of the `examples`, {class: {name: example}}, in order; classes keep their proportions.

    Every class keeps at least one example. The choice depends on hashes of `seed` and the examples' names, not on where
    the files are, and a smaller limit chooses a subset of a larger one's examples.

        >>> pets = {"cat": {name: name for name in "abcd"}, "dog": {name: name for name in "ef"}}
        >>> len(stratified(pets, 3, seed=0))
        3

    Raises ValueError if `limit` is less than the number of classes.
    """
    if limit < len(examples):
        raise ValueError(f"limit {limit} is less than one example for each of the {len(examples)} classes")
    ranks = []
    for group, named in examples.items():
        by_hash = sorted(named, key=lambda name: hashlib.sha256(os.fsencode(f"{seed} {name}")).digest())
        # Ranks are evenly spaced from 0 to 1 in each class, so the lowest overall are the same share of every class.
        ranks += [((rank + 0.5) / len(named) if rank else 0, group, name) for rank, name in enumerate(by_hash)]
    chosen = {(group, name) for _, group, name in sorted(ranks)[:limit]}
    return [example for group, named in examples.items() for name, example in named.items() if (group, name) in chosen]
