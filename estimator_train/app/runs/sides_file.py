"""sides.csv in the directory of a run: the images that it trains on, chooses on and evaluates on, by their names."""

import csv
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from estimator_train._engine.host.files import printable, write_whole
from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.runs import csv_text

NAME = "sides.csv"

_COLUMNS = ["side", "image"]
_SIDES = ("train", "validation", "eval")
_TRAINED = "trained"  # the side of images that an earlier part of the run has trained on, and that it no longer does


class Changes(NamedTuple):
    """How many images have changed since a run was trained; `trained_on` are among those now on a side, by its name."""

    new: int
    gone: int
    moved: int
    trained_on: dict[str, int]
    may_be_renamed: bool  # whether images that were trained on are gone, and others to evaluate or choose on are new


def save(model_dir: StrPath, data: Any, *, is_new: bool) -> None:
    """Writes the sides of the images of a dataset; those of a resumed run keep what it has trained on before.

    A run without the file that is resumed, as one of before, gets none, because what it has trained on is not known.
    """
    now, before = sides_of(data), read(model_dir)
    if now is None or (before is None and not is_new):
        return
    trained: set[str] = set()
    if before is not None and not is_new:
        trained = (before[_TRAINED] | before["train"]) - before["eval"] - before["validation"] - now["train"]
    rows = [(side, name) for side, names in (now | {_TRAINED: trained}).items() for name in sorted(names)]
    write_whole(as_path(model_dir, NAME), csv_text.text_of([_COLUMNS, *rows]))


def read(model_dir: StrPath) -> dict[str, set[str]] | None:
    """Returns {side: names} of the run in `model_dir`, or None if it has no readable sides.csv."""
    try:
        header, *rows = csv_text.rows_of(as_path(model_dir, NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, csv.Error):
        return None
    sides: dict[str, set[str]] = {side: set() for side in (*_SIDES, _TRAINED)}
    if header != _COLUMNS or any(len(row) != 2 or row[0] not in sides for row in rows):
        return None
    for side, name in rows:
        sides[side].add(name)
    return sides


def sides_of(data: Any) -> dict[str, set[str]] | None:
    """Returns {side: names} of the images of a dataset; None unless they are files of their own."""
    if data is None or not all(part.paths for part in data.parts.values()):
        return None
    return {side: named(data.parts[side].own_names()) if side in data.parts else set() for side in _SIDES}


def named(names: Iterable[Any]) -> set[str]:
    """Returns the names of images as sides.csv has them."""
    return {printable(name) for name in names}


def trained_on(sides: Mapping[str, set[str]]) -> set[str]:
    """Returns the names of all images that a run has trained on.

    >>> sorted(trained_on({"train": {"a/1.png"}, "eval": {"a/2.png"}, "trained": {"a/3.png"}}))
    ['a/1.png', 'a/3.png']
    """
    return sides["train"] | sides[_TRAINED]


def changes(before: Mapping[str, set[str]], now: Mapping[str, set[str]]) -> Changes | None:
    """Compares the sides of images; None if all are as before.

    >>> before = {"train": {"1", "2"}, "validation": set(), "eval": {"3"}, "trained": set()}
    >>> changes(before, {"train": {"1", "4"}, "validation": set(), "eval": {"2"}})
    Changes(new=1, gone=1, moved=1, trained_on={'eval': 1}, may_be_renamed=False)

    Parts of their own may have images of the same names, so an image has moved only if it is gone from another side.
    """
    came = {side: now[side] - before[side] for side in _SIDES}
    went = {side: before[side] - now[side] for side in _SIDES}
    all_came, all_went = set().union(*came.values()), set().union(*went.values())
    leaked = {side: (came[side] & went["train"]) | (now[side] & before[_TRAINED]) for side in ("validation", "eval")}
    if not (all_came or all_went or any(leaked.values())):
        return None
    moved = all_came & all_went
    return Changes(
        new=len(all_came - moved),
        gone=len(all_went - moved),
        moved=len(moved),
        trained_on={side: len(names) for side, names in leaked.items() if names},
        may_be_renamed=bool((came["validation"] | came["eval"]) - moved and went["train"] - moved),
    )
