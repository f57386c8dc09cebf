"""Any directory of image files with one subdirectory per class."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from estimator_train._engine.host.paths import RemotePath, as_path, is_remote, scandir
from estimator_train.app.datasets.dataset import About, Dataset, check_classes, held_out, stratified

if TYPE_CHECKING:
    import tensorflow as tf

ABOUT = About("classification", "any", "a folder of class folders")

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")  # of the formats that are decoded
HELD_OUT = (
    "test",
    "val",
    "valid",
    "validation",
)  # common names of evaluation directories: the first that exists evaluates, the next one is for validation


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageDataset(Dataset):
    """Image files whose class is the name of their directory."""

    train_paths: list[str]
    eval_paths: list[str]
    validation_paths: list[str] = dataclasses.field(default_factory=list)
    left_out: tuple[str, ...] = ()  # names of unused directories next to train
    other_files: Mapping[str, int] = dataclasses.field(default_factory=dict)  # {ending: files of other formats}

    @property
    def train_examples(self) -> int:
        return len(self.train_paths)

    @property
    def eval_examples(self) -> int:
        return len(self.eval_paths)

    @property
    def validation_examples(self) -> int:
        return len(self.validation_paths)

    def train_input_fn(
        self,
        *,
        image_size: tuple[int, int],
        batch_size: int,
        num_epochs: int | None,
        seed: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        fast: bool = False,
        **decoding: Any,
    ) -> Callable[..., tf.data.Dataset]:
        """Returns an input_fn over the shuffled training images: see `input_fns.image_files`.

        `decoding` are its arguments `resize` and `orient`.
        """
        options = {"num_epochs": num_epochs, "seed": seed, "cache": cache, "fast": fast, **decoding}
        return self._input_fn("train", image_size, shuffle=True, batch_size=batch_size, **options)

    def eval_input_fn(
        self,
        *,
        image_size: tuple[int, int],
        batch_size: int,
        cache: str | os.PathLike[str] | None = None,
        fast: bool = False,
        **decoding: Any,
    ) -> Callable[..., tf.data.Dataset]:
        """Returns an input_fn over the evaluation images, once and in order: see `train_input_fn`."""
        options = {"num_epochs": 1, "cache": cache, "fast": fast, **decoding}
        return self._input_fn("eval", image_size, batch_size=batch_size, **options)

    def image_paths(self) -> dict[str, list[str]]:
        sides = {"train": self.train_paths, "eval": self.eval_paths}
        return sides | ({"validation": self.validation_paths} if self.validation_paths else {})

    def class_counts(self) -> dict[str, dict[str, int]]:
        return {
            side: {name: len(found) for name, found in paths_by_class(paths, self.class_names).items()}
            for side, paths in self.image_paths().items()
        }

    def limited(self, limit: int, seed: int = 0) -> ImageDataset:
        cut: dict[str, Any] = {
            f"{side}_paths": stratified(self._named(paths), limit, seed) for side, paths in self.image_paths().items()
        }
        return dataclasses.replace(self, **cut)

    def to_choose_on(self) -> ImageDataset:
        if not self.validation_paths:
            return self
        return dataclasses.replace(self, eval_paths=self.validation_paths, validation_paths=[])

    def with_validation(self, share: float) -> ImageDataset:
        return self.holding_out(held_out(self._named(self.train_paths), share))

    def holding_out(self, paths: Iterable[str]) -> ImageDataset:
        """Returns the dataset with some of its training images as validation images, instead of others."""
        chosen = set(paths)
        return dataclasses.replace(
            self,
            train_paths=[path for path in self.train_paths if path not in chosen],
            validation_paths=[path for path in self.train_paths if path in chosen],
            validation_name="",
            left_out=tuple(sorted({*self.left_out, *filter(None, [self.validation_name])})),
        )

    def _named(self, paths):
        """Returns {class name: {file name: path}}."""
        by_class = paths_by_class(paths, self.class_names)
        return {name: {os.path.basename(path): path for path in paths} for name, paths in by_class.items()}

    def _input_fn(self, side, image_size, **options):
        from estimator_train import input_fns

        return input_fns.image_files(self.image_paths()[side], self.class_names, image_size, **options)


def open_dataset(data_dir: str | os.PathLike[str] | None = None) -> ImageDataset:
    """Returns the dataset of the image files in `data_dir`: see `open_directory`."""
    if data_dir is None:
        raise ValueError("images needs --data-dir, a folder with a folder of image files for each class")
    return open_directory(
        data_dir, name="images", default_model="mobilenet_v2", default_epochs=2, image_size=(224, 224)
    )


def open_directory(
    directory: str | os.PathLike[str],
    *,
    name: str,
    default_model: str,
    default_epochs: int,
    image_size: tuple[int, int],
    class_names: Sequence[str] | None = None,
) -> ImageDataset:
    """Returns the `ImageDataset` of `directory`.

    `directory` holds either the class directories, or `train` and one or two of `test`, `val`, `valid` and
    `validation`, each with class directories. The first of them evaluates, and the second is for validation. Without
    evaluation images, a fifth of each class is held out, chosen by hashes of the file names. `left_out` names the
    directories next to `train` that are not used.

    Args:
      class_names: the required classes in the order of their indices; None uses those found, sorted.

    Raises:
      FileNotFoundError, NotADirectoryError: `directory` does not exist, or is not a directory.
      ValueError: the files are not laid out like that.
    """
    folder = checked_directory(directory)
    train = folder / "train" if subdirectories(folder / "train") else folder
    tests = [folder / test for test in HELD_OUT if subdirectories(folder / test)]
    used = {train.name, *(test.name for test in tests[:2])}
    left_out = [] if train == folder else [each.name for each in subdirectories(folder) if each.name not in used]
    others: collections.Counter[str] = collections.Counter()
    files, validation_paths = _files_by_class(train, class_names, others), []
    if train == folder or not tests:
        splits = [_split(class_directory, paths) for class_directory, paths in files.items()]
        train_paths, eval_paths = ([path for paths in side for path in paths] for side in zip(*splits, strict=True))
    else:
        train_paths = [path for paths in files.values() for path in paths]
        eval_paths, validation_paths = (_side(each, train, files, class_names, others) for each in [*tests, None][:2])
    class_names = tuple(class_names or files)
    return ImageDataset(
        name=name,
        class_names=class_names,
        default_model=default_model,
        default_epochs=default_epochs,
        image_size=image_size,
        train_paths=train_paths,
        eval_paths=eval_paths,
        validation_paths=validation_paths,
        validation_name=tests[1].name if validation_paths else "",
        left_out=tuple(left_out),
        other_files=others,
    )


def counted_endings(others: Mapping[str, int]) -> str | None:
    """Says how many files of other formats are left out; None if there are none.

    >>> counted_endings({".heic": 6, ".txt": 2})
    '8 files of other formats: .heic 6, .txt 2'
    """
    number = sum(others.values())
    ordered = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{ending or 'without an ending'} {count}" for ending, count in ordered)
    return f"{number} file{'s' * (number > 1)} of other formats: {listed}" if others else None


def _side(directory, train, train_files, class_names, others):
    """Returns the image paths of an evaluation directory, which must have the classes of `train`; none for None."""
    if directory is None:
        return []
    files = _files_by_class(directory, class_names, others)
    if sorted(train_files) != sorted(files):
        differing = ", ".join(sorted(train_files.keys() ^ files.keys()))
        raise ValueError(f"{train} and {directory} must hold the same classes, but only one of them has {differing}")
    return [path for paths in files.values() for path in paths]


def open_evaluation(
    data_dir: str | os.PathLike[str],
    class_names: Sequence[str],
    *,
    task: str = "classification",
    image_size: tuple[int, int],
) -> ImageDataset:
    """Returns the dataset whose evaluation images are those of `data_dir`, without training images.

    `data_dir` holds class directories, all of whose images are taken, or a `test` or `val` directory with them.

    Raises:
      FileNotFoundError, NotADirectoryError: as `open_directory`.
      ValueError: the classes differ from `class_names`, and the message names those that do; or `task` is another.

    Example:
      data = open_evaluation("more_scans", ["CNV", "DME"], image_size=(224, 224))
    """
    if task != "classification":
        raise ValueError(f"a folder of class folders is for classification, and the run's task is {task}")
    directory = checked_directory(data_dir)
    chosen = next((directory / name for name in HELD_OUT if subdirectories(directory / name)), directory)
    check_classes(chosen, [each.name for each in subdirectories(chosen)], class_names)
    others: collections.Counter[str] = collections.Counter()
    paths = _side(chosen, chosen, dict.fromkeys(class_names), class_names, others)
    return ImageDataset(
        name="images",
        class_names=tuple(class_names),
        default_model="mobilenet_v2",
        default_epochs=2,
        image_size=image_size,
        train_paths=[],
        eval_paths=paths,
        other_files=others,
    )


def checked_directory(directory: str | os.PathLike[str]) -> Path | RemotePath:
    """Returns the path of a directory; raises FileNotFoundError or NotADirectoryError if it is none."""
    path = as_path(directory)
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {path}")
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is a file, not a folder of class folders")
    return path


def paths_by_class(paths: Iterable[str], class_names: Sequence[str]) -> dict[str, list[str]]:
    """Returns {class name: the paths in a directory of that name}, in order.

    >>> paths_by_class(["scans/DME/2.jpeg", "scans/CNV/1.jpeg"], ["CNV", "DME"])
    {'CNV': ['scans/CNV/1.jpeg'], 'DME': ['scans/DME/2.jpeg']}
    """
    by_class = {class_name: [] for class_name in class_names}
    for path in paths:
        by_class[os.path.basename(os.path.dirname(path))].append(path)
    return by_class


def subdirectories(directory: Path | RemotePath) -> list[Path | RemotePath]:
    """Returns the sorted subdirectories, except hidden ones and __MACOSX; none if `directory` is not a directory."""
    if not directory.is_dir():
        return []
    return sorted(
        as_path(entry) for entry in scandir(directory) if entry.is_dir() and not entry.name.startswith((".", "__"))
    )


def _files_by_class(directory, class_names, others):
    """Returns {class name: sorted paths of its images}, in order of the names, and counts other files by ending."""
    files = {each.name: _image_files(each, others) for each in subdirectories(directory)}
    if not files:
        raise ValueError(f"{directory} has no class folders: put the images of each class into a separate folder")
    if not any(files.values()):
        found = f", but {counted_endings(others)}" if others else ""
        raise ValueError(f"none of the class folders in {directory} has image files{found}: {', '.join(files)}")
    for class_name, paths in files.items():
        if not paths:
            raise ValueError(f"class folder {directory / class_name} has no image files: fill or remove it")
    if len(files) == 1:
        raise ValueError(f"{directory} has only one class, {next(iter(files))}: at least two are needed")
    if class_names and sorted(files) != sorted(class_names):
        raise ValueError(
            f"{directory} must hold the classes {', '.join(class_names)}, but holds {', '.join(files)}; the dataset "
            "images takes any classes"
        )
    return files


def _image_files(directory, others):
    entries = []
    for entry in scandir(directory):
        if entry.name.startswith("."):
            continue
        if entry.name.lower().endswith(SUFFIXES):
            entries.append(entry)
        elif is_remote(entry) or entry.is_file():  # checking each remote file takes too long
            others[os.path.splitext(entry.name)[1].lower()] += 1
    for entry in entries:
        if not (is_remote(entry) or entry.is_file()):  # checking each remote file takes too long
            raise ValueError(f"{entry.path} is a directory, pipe, device or broken link, not an image file: remove it")
    return sorted(entry.path for entry in entries)


def _split(class_name, paths):
    """Returns (training paths, evaluation paths), independent of the files' order and location."""
    if len(paths) == 1:
        raise ValueError(f"class {class_name} has one image, {paths[0]}: at least two are needed")
    by_hash = sorted(paths, key=lambda path: hashlib.sha256(os.fsencode(os.path.basename(path))).digest())
    number = max(1, round(len(paths) / 5))
    return sorted(by_hash[number:]), sorted(by_hash[:number])
