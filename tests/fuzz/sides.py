"""Random folders, manifests and patients whose files come, go and are renamed while a run is trained and resumed.

No image that the run has trained on is evaluated or chosen on unless the command says so. Nothing is trained: the
command plans, and the run is written as a training would have left it.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from estimator_train.app.cli import main
from estimator_train.app.datasets.held_out import BY_NAME, BY_RANK
from estimator_train.app.datasets.oct2017 import CLASS_NAMES
from estimator_train.app.errors import SettingError
from estimator_train.app.running.changed_images import keep_sides
from estimator_train.app.runs import predictions_file, run_file
from estimator_train.app.runs.spec import Settings, Training
from tests.helpers.pretended_checkpoints import pretend

_KINDS = ("images", "divided", "manifest", "divided manifest", "patients")
_WORDS = ("had been trained on", "may have been trained on", "which images it has trained on is not", "the same files")
_CHANGES = ("delete", "delete held out", "delete a class's held out", "rename", "relabel", "add", "copy", "other side")


def draw(rng: random.Random) -> dict:
    """Returns a random run with the changes before each time that it is resumed or evaluated."""
    kind = rng.choice(_KINDS)
    return {
        "seed": rng.randrange(10**6),
        "kind": kind,
        "images": [rng.choice([2, 4, 8, 20, 60]) for _ in range(4 if kind == "patients" else rng.randrange(2, 4))],
        "rule": rng.choice([BY_NAME, BY_NAME, BY_RANK]),
        "listed": rng.random() < 0.5,
        "validation": rng.choice([None, None, 0.1, 0.3]),
        "limit": rng.choice([None, None, None, 12]),
        "moved": rng.random() < 0.2,
        "rounds": [
            [[rng.choice(_CHANGES), rng.choice([1, 3, 10])] for _ in range(rng.randrange(1, 4))]
            for _ in range(rng.randrange(1, 4))
        ],
    }


def smaller(case: dict) -> Iterator[dict]:
    """Yields the case with fewer rounds, changes, images and settings."""
    for index in range(len(case["rounds"])):
        if len(case["rounds"]) > 1:
            yield case | {"rounds": case["rounds"][:index] + case["rounds"][index + 1 :]}
        for change in range(len(case["rounds"][index])):
            left = case["rounds"][index][:change] + case["rounds"][index][change + 1 :]
            yield case | {"rounds": [*case["rounds"][:index], left, *case["rounds"][index + 1 :]]}
    for name, value in {"validation": None, "limit": None, "moved": False}.items():
        if case[name] != value:
            yield case | {name: value}
    if max(case["images"]) > 4:
        yield case | {"images": [min(number, max(case["images"]) // 2) for number in case["images"]]}


def check(case: dict, directory: Path) -> None:
    """Plans a resumed run after each round of changes, and compares what it says with what it has trained on."""
    rng = random.Random(case["seed"])
    data = _Data(case, directory, rng)
    trained: set[str] = set()  # what is in the files, which keep it under other names
    for number, changes in enumerate([[], *case["rounds"]]):
        sides = _opened(data, directory)
        for change, times in changes:
            for _ in range(times):
                data.change(change, sides or {})
        if case["moved"] and number == 1:
            data.move(directory / "elsewhere")
        data.write()
        said = _plan(data, directory) if number else ""
        sides = _opened(data, directory)
        if sides is None:  # it was refused in a line
            continue
        # Of a run of before, only the evaluation images are known.
        evaluated = [side for side in ("validation", "eval") if data.is_listed or side == "eval"]
        seen = {data.content(path) for side in evaluated for path in sides.get(side, ())} & trained
        assert not seen or any(word in said for word in _WORDS), (
            f"{len(seen)} images that were trained on are evaluated after round {number}, and the command says {said!r}"
        )
        _save_run(data, directory)
        trained |= {data.content(path) for path in sides["train"]}


class _Data:
    """The files of a case, each with different bytes, and a run's settings for them."""

    def __init__(self, case, directory, rng):
        self._case, self._rng, self._number = case, rng, 0
        self._is_manifest = "manifest" in case["kind"]
        self.folder = directory / "data"
        classes = CLASS_NAMES if case["kind"] == "patients" else ("a", "b", "c")
        self._sides = {"divided": ("train", "test", "val"), "patients": ("train", "test")}.get(case["kind"], ("",))
        self._labels: dict[Path, str] = {}  # of a manifest
        self._splits: dict[Path, str] = {}
        self._classes = classes[: len(case["images"])]
        for label, number in zip(self._classes, case["images"], strict=True):
            for _ in range(number):
                self._add(label, self._sides[0])
            for side in self._sides[1:]:
                self._add(label, side)
        if case["kind"] == "divided manifest":
            for label in self._classes:
                self._add(label, "", "test")

    def write(self):
        if self._is_manifest:
            with open(self.folder / "labels.csv", "w", newline="") as file:
                rows = csv.writer(file)
                divided = self._case["kind"] == "divided manifest"
                rows.writerow(["path", "label", *(["split"] if divided else [])])
                for path in self._files():
                    rows.writerow(
                        [path.relative_to(self.folder), self._labels[path], *([self._splits[path]] if divided else [])]
                    )

    def settings(self):
        kind = {"divided": "images", "divided manifest": "manifest", "patients": "oct2017"}
        return Settings(
            dataset=kind.get(self._case["kind"], self._case["kind"]),
            data_dir=str(self.folder / "labels.csv" if self._is_manifest else self.folder),
            model="small_cnn",
            batch_size=4,
            image_size=(16, 16),
            split="patient" if self._case["kind"] == "patients" else None,
            validation=self._case["validation"],
            limit=self._case["limit"],
            seed=1,
            class_names=self._classes,
            held_out_by=self._case["rule"],
        )

    @property
    def is_listed(self):
        """Whether the run has sides.csv; one of before, by rank, may have predictions.csv alone."""
        return self._case["listed"] or self._case["rule"] == BY_NAME

    def move(self, place):
        self.folder.rename(place)
        for each in (self._labels, self._splits):
            moved = {place / path.relative_to(self.folder): value for path, value in each.items()}
            each.clear()
            each.update(moved)
        self.folder = place

    @staticmethod
    def content(path):
        return Path(path).read_text()

    def change(self, change, sides):
        held_out = [Path(path) for path in sides.get("eval", ()) if Path(path).exists()]
        if not (files := self._files()):
            return
        path = self._rng.choice(files)
        if change == "add":
            self._add(
                self._rng.choice(self._classes), self._rng.choice(self._sides), self._rng.choice(["train", "test"])
            )
        elif change == "delete":
            self._remove(path)
        elif change == "delete held out" and held_out:
            self._remove(self._rng.choice(held_out))
        elif change == "delete a class's held out" and held_out:
            label = self._label(self._rng.choice(held_out))
            for each in held_out:
                if self._label(each) == label:
                    self._remove(each)
        elif change in ("rename", "copy"):
            self._number += 1
            self._put(path, path.with_name(self._name(self._label(path))), keep=change == "copy")
        elif change == "relabel":
            label = self._rng.choice(self._classes)
            if self._is_manifest:
                self._labels[path] = label
            else:
                self._put(path, path.parent.with_name(label) / path.name, keep=False)
        elif change == "other side":
            if self._is_manifest:
                self._splits[path] = self._rng.choice(["train", "test"])
            elif len(self._sides) > 1:
                label = self._label(path)
                self._put(path, self.folder / self._rng.choice(self._sides) / label / path.name, keep=False)

    def _files(self):
        return sorted(path for path in self.folder.rglob("*.png") if path.is_file())

    def _label(self, path):
        return self._labels[path] if self._is_manifest else path.parent.name

    def _name(self, label):
        if self._case["kind"] == "patients":
            return f"{label}-{self._rng.randrange(1, 40)}-{self._number}.png"
        return self._rng.choice([f"{self._number}.png", f"scan {self._number:04}.png"])

    def _add(self, label, side, split="train"):
        self._number += 1
        folder = self.folder if self._is_manifest else self.folder / side / label
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self._name(label)
        path.write_text(f"{self._number}")
        self._labels[path], self._splits[path] = label, split

    def _put(self, path, place, keep):
        if place.exists() or place == path:
            return
        place.write_text(path.read_text())
        self._labels[place], self._splits[place] = self._labels.get(path), self._splits.get(path)
        if not keep:
            self._remove(path)

    def _remove(self, path):
        if path.exists():
            path.unlink()


def _opened(data, directory):
    """Returns {side: paths} as training and evaluate open them, or None if the data is refused."""
    data.write()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return data.settings().open_data().image_paths()
    except SettingError as error:
        assert "\n" not in str(error)
        return None


def _plan(data, directory):
    """Returns what the resumed run says on standard error."""
    arguments = ["--model-dir", str(directory / "run"), "--resume", "--dry-run", "--data-dir", data.settings().data_dir]
    arguments += ["--dataset", data.settings().dataset]
    errors = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["estimator_train", *arguments]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(errors),
        contextlib.suppress(SystemExit),
    ):
        main()
    return errors.getvalue()


def _save_run(data, directory):
    """Writes what a training of four steps leaves in its directory."""
    opened, run = data.settings().open_data(), directory / "run"
    is_first = not run.exists()
    run.mkdir(exist_ok=True)
    if data.is_listed or not is_first:
        keep_sides(str(run), data.settings(), opened, is_new=is_first)
    else:
        labels = np.zeros(opened.eval_examples, int)
        predictions_file.write(run, opened, opened.class_names, labels, np.ones([len(labels), 1]))
    counts = {side: part.count for side, part in opened.parts.items()} | {"classes": opened.class_counts()}
    about = {"last_step": 4, "batches_per_step": 1, "first_step": 0, "data": counts}
    training = dataclasses.asdict(Training(max_steps=4, evaluate_every=2))
    run_file.save(run, dataclasses.asdict(data.settings().filled_by(opened)), training=training, **about)
    pretend(run, 4)
