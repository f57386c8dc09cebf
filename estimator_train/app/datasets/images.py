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
    """Image files whose class is the name of their class directory, which they are in, or below.

    Attributes:
      class_directories: for a directory of images below a class directory, the latter's path; all others are their own.
    """

    train_paths: list[str]
    eval_paths: list[str]
    validation_paths: list[str] = dataclasses.field(default_factory=list)
    left_out: tuple[str, ...] = ()  # names of unused directories next to train
    other_files: Mapping[str, int] = dataclasses.field(default_factory=dict)  # {ending: files of other formats}
    class_directories: Mapping[str, str] = dataclasses.field(default_factory=dict)

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
            side: {name: len(found) for name, found in self.by_class(paths).items()}
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

    def class_of(self, path: str) -> str:
        """Returns the class of an image.

        >>> data = datasets.open_dataset("synthetic_oct", "scans", draw=False)
        >>> data.class_of("scans/train/DME/DME-100000-1.jpeg")
        'DME'
        """
        return os.path.basename(self._class_directory(path))

    def by_class(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Returns {class name: the paths of its images}, in order."""
        by_class: dict[str, list[str]] = {class_name: [] for class_name in self.class_names}
        for path in paths:
            by_class[self.class_of(path)].append(path)
        return by_class

    def _class_directory(self, path):
        directory = os.path.dirname(path)
        return self.class_directories.get(directory, directory)

    def _named(self, paths):
        """Returns {class name: {file name, with directories below the class directory: path}}."""
        return {
            class_name: {path[len(self._class_directory(path)) + 1 :]: path for path in found}
            for class_name, found in self.by_class(paths).items()
        }

    def _input_fn(self, side, image_size, **options):
        from estimator_train import input_fns

        paths = sorted(self.image_paths()[side])
        numbers = {class_name: number for number, class_name in enumerate(self.class_names)}
        labels = [numbers[self.class_of(path)] for path in paths]
        return input_fns.labelled_images(paths, labels, image_size, num_classes=len(numbers), **options)


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
    directories next to `train` that are not used. The images of a class are in its directory and in all directories
    below it; links to directories are followed.

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
    found = _Found()
    files, validation_paths = _files_by_class(train, class_names, found), []
    if train == folder or not tests:
        splits = [_split(train / class_name, paths) for class_name, paths in files.items()]
        train_paths, eval_paths = ([path for paths in side for path in paths] for side in zip(*splits, strict=True))
    else:
        train_paths = [path for paths in files.values() for path in paths]
        eval_paths, validation_paths = (_side(each, train, files, class_names, found) for each in [*tests, None][:2])
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
        other_files=found.other_files,
        class_directories=found.class_directories,
    )


@dataclasses.dataclass(frozen=True)
class _Found:
    """Collects what a search finds besides images, for the fields of `ImageDataset` with the same names."""

    other_files: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    class_directories: dict[str, str] = dataclasses.field(default_factory=dict)


def counted_endings(others: Mapping[str, int]) -> str | None:
    """Says how many files of other formats are left out; None if there are none.

    >>> counted_endings({".heic": 6, ".txt": 2})
    '8 files of other formats: .heic 6, .txt 2'
    """
    number = sum(others.values())
    ordered = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{ending or 'without an ending'} {count}" for ending, count in ordered)
    return f"{number} file{'s' * (number > 1)} of other formats: {listed}" if others else None


def _side(directory, train, train_files, class_names, found):
    """Returns the image paths of an evaluation directory, which must have the classes of `train`; none for None."""
    if directory is None:
        return []
    files = _files_by_class(directory, class_names, found)
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
    found = _Found()
    paths = _side(chosen, chosen, dict.fromkeys(class_names), class_names, found)
    return ImageDataset(
        name="images",
        class_names=tuple(class_names),
        default_model="mobilenet_v2",
        default_epochs=2,
        image_size=image_size,
        train_paths=[],
        eval_paths=paths,
        other_files=found.other_files,
        class_directories=found.class_directories,
    )


def checked_directory(directory: str | os.PathLike[str]) -> Path | RemotePath:
    """Returns the path of a directory; raises FileNotFoundError or NotADirectoryError if it is none."""
    path = as_path(directory)
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {path}")
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is a file, not a folder of class folders")
    return path


def subdirectories(directory: Path | RemotePath) -> list[Path | RemotePath]:
    """Returns the sorted subdirectories, except hidden ones and __MACOSX; none if `directory` is not a directory."""
    if not directory.is_dir():
        return []
    return sorted(
        as_path(entry) for entry in scandir(directory) if entry.is_dir() and not entry.name.startswith((".", "__"))
    )


def _files_by_class(directory, class_names, found):
    """Returns {class name: sorted paths of its images}, in order of the names, and notes what else is `found`."""
    files = {each.name: _image_files(each, each, found) for each in subdirectories(directory)}
    if not files:
        raise ValueError(f"{directory} has no class folders: put the images of each class into a separate folder")
    if not any(files.values()):
        others = f", but {counted_endings(found.other_files)}" if found.other_files else ""
        raise ValueError(f"none of the class folders in {directory} has image files{others}: {', '.join(files)}")
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


def _image_files(directory, class_directory, found, above=()):
    """Returns the sorted paths of the images in a class directory, or in one below, and in all directories below that.

    A link to one of the directories `above`, given by their real paths, is not followed.
    """
    real = str(directory) if is_remote(directory) else os.path.realpath(directory)
    if real in above:
        return []
    if directory != class_directory:
        found.class_directories[str(directory)] = str(class_directory)
    entries = [entry for entry in scandir(directory) if not entry.name.startswith(".")]
    images = [entry for entry in entries if entry.name.lower().endswith(SUFFIXES)]
    for entry in images:
        if not (is_remote(entry) or entry.is_file()):  # checking each remote file takes too long
            raise ValueError(f"{entry.path} is a directory, pipe, device or broken link, not an image file: remove it")
    paths = [entry.path for entry in images]
    for entry in entries:
        ending = os.path.splitext(entry.name)[1].lower()
        if ending in SUFFIXES:
            continue
        may_be_directory = not (is_remote(entry) and ending)  # as above
        if may_be_directory and entry.is_dir():
            is_hidden = entry.name.startswith("__")
            paths += [] if is_hidden else _image_files(as_path(entry), class_directory, found, (*above, real))
        elif is_remote(entry) or entry.is_file():
            found.other_files[ending] += 1
    return sorted(paths)


def _split(directory, paths):
    """Returns (training paths, evaluation paths) of a class, independent of the files' order and location."""
    if len(paths) == 1:
        raise ValueError(f"class {directory.name} has one image, {paths[0]}: at least two are needed")

    def key(path):
        return hashlib.sha256(os.fsencode(path[len(str(directory)) + 1 :])).digest()

    by_hash = sorted(paths, key=key)
    number = max(1, round(len(paths) / 5))
    return sorted(by_hash[number:]), sorted(by_hash[:number])
