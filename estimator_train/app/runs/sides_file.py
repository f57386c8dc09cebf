"""sides.csv in the directory of a run: the images that it trains on, chooses on and evaluates on, by their names."""

import csv
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from estimator_train._engine.host.files import printable, write_whole
from estimator_train._engine.host.paths import StrPath, as_path
from estimator_train.app.runs import csv_text

NAME = "sides.csv"

_COLUMNS = ["side", "image"]
_JUDGING = ("validation", "eval")
_SIDES = ("train", *_JUDGING)
_TRAINED = "trained"  # the side of images that an earlier part of the run has trained on, and that it no longer does
_DOUBTFUL = "perhaps trained"  # beside another side: images that may have been trained on, such as under other names


class Changes(NamedTuple):
    """How many images have changed since a run was trained."""

    new: int
    gone: int
    moved: int
    trained_on: dict[str, int]  # of those to choose on and to evaluate on, by their sides
    doubtful: int  # of these, those that may have been, as they came when images that were trained on went


def save(model_dir: StrPath, data: Any, *, is_new: bool = False, is_known: bool = True) -> None:
    """Writes the sides of the images of a dataset; those of a resumed run keep what it has trained on before.

    `is_new` is whether nothing has been trained yet, and `is_known` whether a run without the file, as one of before,
    has trained on today's images.
    """
    now, before = sides_of(data), read(model_dir)
    if now is None:
        return
    sides = dict(now)
    if not is_new and before is None and not is_known:
        sides[_DOUBTFUL] = now["validation"] | now["eval"]
    if not is_new and before is not None:
        trained = before["train"] - before["eval"] - before["validation"]  # others are two files of one name
        sides[_TRAINED] = (before[_TRAINED] | trained) - now["train"]
        sides[_DOUBTFUL] = _doubtful(before, now)
    rows = [(side, name) for side, names in sides.items() for name in sorted(names)]
    write_whole(as_path(model_dir, NAME), csv_text.text_of([_COLUMNS, *rows]))


def read(model_dir: StrPath) -> dict[str, set[str]] | None:
    """Returns {side: names} of the run in `model_dir`, or None if it has no readable sides.csv."""
    try:
        header, *rows = csv_text.rows_of(as_path(model_dir, NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, csv.Error):
        return None
    sides: dict[str, set[str]] = {side: set() for side in (*_SIDES, _TRAINED, _DOUBTFUL)}
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

    >>> before = {"train": {"1", "2"}, "eval": {"3"}} | {side: set() for side in ("validation", "trained")}
    >>> changes(before | {"perhaps trained": set()}, {"train": {"1", "4"}, "validation": set(), "eval": {"2"}})
    Changes(new=1, gone=1, moved=1, trained_on={'eval': 1}, doubtful=0)

    Parts of their own may have images of the same names, so an image has moved only if it is gone from another side.
    """
    came, went = _came_and_went(before, now)
    all_came, all_went = set().union(*came.values()), set().union(*went.values())
    moved = all_came & all_went
    trained = {side: (came[side] & went["train"]) | (now[side] & before[_TRAINED]) for side in _JUDGING}
    found = Changes(
        new=len(all_came - moved),
        gone=len(all_went - moved),
        moved=len(moved),
        trained_on={side: len(names) for side, names in trained.items() if names},
        doubtful=len(_doubtful(before, now)),
    )
    return found if any(found) else None


def _came_and_went(before, now):
    """Returns {side: names} of the images that a side has got, and of those that it has lost."""
    return {side: now[side] - before[side] for side in _SIDES}, {side: before[side] - now[side] for side in _SIDES}


def _doubtful(before, now):
    """Returns the names of images to choose or evaluate on that may have been trained on."""
    came, went = _came_and_went(before, now)
    doubtful = before[_DOUBTFUL]
    if went["train"] - set().union(*came.values()):
        doubtful = doubtful.union(*(came[side] for side in _JUDGING)) - set().union(*went.values())
    return doubtful & set().union(*(now[side] for side in _JUDGING))
