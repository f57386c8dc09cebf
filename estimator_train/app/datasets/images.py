"""Any directory of image files with one subdirectory per class."""

import collections
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from estimator_train._engine.host.files import quoted
from estimator_train._engine.host.paths import RemotePath, StrPath, as_path, is_remote, scandir
from estimator_train.app.datasets.dataset import PHOTOGRAPHS, About, Dataset, check_classes, sides
from estimator_train.app.datasets.held_out import EVALUATION, holds_out_by_rank
from estimator_train.app.datasets.part import InputFn, Part
from estimator_train.app.errors import SpelledError

ABOUT = About("classification", "any", "a folder of class folders")

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")  # of the formats that are decoded
# Common names of evaluation directories: the first that exists evaluates, the next one is for validation.
HELD_OUT = ("test", "val", "valid", "validation")
_DATASETS_IN_FILES = {".csv": "manifest", ".npz": "npz", ".zip": "oct2017"}  # by the ending of the file


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ImageFiles(Part):
    """Image files, sorted by their paths, with class indices."""

    PER_EXAMPLE: ClassVar[tuple[str, ...]] = ("paths", "keys", "labels")

    paths: list[str]
    keys: list[str]  # names of the files, with the directories below that of their class

    def names(self) -> Sequence[str]:
        return self.keys

    def own_names(self) -> list[str]:
        return [f"{self.class_names[label]}/{key}" for key, label in zip(self.keys, self.labels, strict=True)]

    def input_fn(self, image_size: tuple[int, int], **options: Any) -> InputFn:
        """Returns an input_fn over the images; `options` are those of `input_fns.labelled_images`."""
        from estimator_train import input_fns

        options = {"num_classes": len(self.class_names)} | options
        return input_fns.labelled_images(self.paths, self.labels, image_size, **options)


def image_files(
    class_names: tuple[str, ...], directory: Path | RemotePath, files: Mapping[str, Iterable[str]]
) -> ImageFiles:
    """Returns the part of the images in the class directories of `directory`; `files` is {class name: paths}.

    >>> image_files(("cat", "dog"), Path("pets"), {"cat": ["pets/cat/1.png"], "dog": ["pets/dog/old/1.png"]}).keys
    ['1.png', 'old/1.png']
    """
    indices = {name: index for index, name in enumerate(class_names)}
    starts = [len(str(directory / name)) + 1 for name in class_names]
    by_path = {path: indices[name] for name, paths in files.items() for path in paths}
    paths = sorted(by_path)
    labels = [by_path[path] for path in paths]
    keys = [path[starts[label] :] for path, label in zip(paths, labels, strict=True)]
    return ImageFiles(class_names=class_names, labels=labels, paths=paths, keys=keys)


def open_dataset(data_dir: StrPath) -> Dataset:
    """Returns the dataset of the image files in `data_dir`: see `open_directory`."""
    return open_directory(data_dir, name="images", **PHOTOGRAPHS)


def open_directory(
    directory: StrPath, *, name: str, class_names: Sequence[str] | None = None, **defaults: Any
) -> Dataset:
    """Returns the dataset of `directory`.

    `directory` holds either the class directories, or `train` and one or two of `test`, `val`, `valid` and
    `validation`, each with class directories. The first of them evaluates, and the second is for validation. Without
    evaluation images, the names of the files hold out a fifth; see `held_out`. `left_out` names the directories next to
    `train` that are not used. The images of a class are in its directory and in all directories below it; links to
    directories are followed.

    `class_names` are the required classes in the order of their indices; None uses those found, sorted. `defaults` are
    `default_model`, `image_size` and perhaps `default_epochs` of the dataset. Raises ValueError for another layout; see
    `checked_directory`, too.
    """
    folder = checked_directory(directory)
    train, tests, left_out = _layout(folder)
    others: collections.Counter[str] = collections.Counter()  # files of other formats, by their endings
    files = _files_by_class(train, class_names, others)
    names = tuple(class_names or files)
    if tests:
        parts = {"train": image_files(names, train, files)}
        for test in tests:
            parts[test.name] = image_files(names, test, _side(test, train, files, class_names, others))
    else:
        parts = dict(zip(("train", "test"), _without_tests(image_files(names, train, files)), strict=True))
    return Dataset(name=name, class_names=names, **defaults, **sides(parts), left_out=left_out, other_files=others)


def counted_endings(others: Mapping[str, int]) -> str | None:
    """Says how many files of other formats are left out; None if there are none.

    >>> counted_endings({".tga": 6, ".txt": 2})
    '8 files of other formats: .tga 6, .txt 2'
    """
    if not others:
        return None
    number = sum(others.values())
    ordered = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{ending or 'without an ending'} {count}" for ending, count in ordered)
    text = f"{number} file{'s' * (number > 1)} of other formats: {listed}"
    if ".heic" in others:
        text += " (convert .heic to JPEG, for example by magick mogrify -format jpg *.heic)"
    return text


def _layout(folder):
    """Returns the directory to train on, up to two to evaluate on, and the names of those next to them."""
    if not subdirectories(folder / "train"):
        _check_no_part(folder)
        return folder, [], ()
    tests = [folder / test for test in HELD_OUT if subdirectories(folder / test)][:2]
    used = {"train", *(test.name for test in tests)}
    return folder / "train", tests, tuple(each.name for each in subdirectories(folder) if each.name not in used)


def _check_no_part(folder):
    """Rejects parts by other names, such as Train and Test, which would be taken for classes."""
    named = [each for each in subdirectories(folder) if each.name.lower() in ("train", "training")]
    parts = [each.name for each in named if subdirectories(each)]
    if parts:
        raise ValueError(
            f"{folder} has {parts[0]}, but no folder train with class folders: rename it to train, and the one to "
            f"evaluate on to {', '.join(HELD_OUT[:-1])} or {HELD_OUT[-1]}"
        )


def _side(directory, train, train_files, class_names, others):
    """Returns {class name: image paths} of a directory for evaluation, which must have the classes of `train`."""
    files = _files_by_class(directory, class_names, others)
    if sorted(train_files) != sorted(files):
        differing = quoted(sorted(train_files.keys() ^ files.keys()))
        raise ValueError(f"{train} and {directory} must hold the same classes, but only one of them has {differing}")
    return files


def open_evaluation(
    data_dir: StrPath, class_names: Sequence[str], *, task: str = "classification", image_size: tuple[int, int]
) -> Dataset:
    """Returns the dataset whose evaluation images are those of `data_dir`, without training images.

        data = open_evaluation("more_scans", ["CNV", "DME"], image_size=(224, 224))

    `data_dir` holds class directories, all of whose images are taken, or a `test` or `val` directory with them. Raises
    ValueError, which names the classes that differ from `class_names`, or for another `task`.
    """
    if task != "classification":
        raise ValueError(f"a folder of class folders is for classification, and the run's task is {task}")
    directory = checked_directory(data_dir)
    chosen = next((directory / name for name in HELD_OUT if subdirectories(directory / name)), directory)
    check_classes(chosen, [each.name for each in subdirectories(chosen)], class_names)
    others: collections.Counter[str] = collections.Counter()
    names = tuple(class_names)
    files = _files_by_class(chosen, names, others)
    return Dataset(
        name="images",
        class_names=names,
        **{**PHOTOGRAPHS, "image_size": image_size},
        train=image_files(names, chosen, {}),
        eval=image_files(names, chosen, files),
        other_files=others,
    )


class NoFolderError(SpelledError, NotADirectoryError):
    """The path of the data is that of a file."""


def checked_directory(directory: StrPath) -> Path | RemotePath:
    """Returns the path of a directory; raises FileNotFoundError or NotADirectoryError if it is none."""
    path = as_path(directory)
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {path}")
    if not path.is_dir():
        kind = "a file"
        if dataset := _DATASETS_IN_FILES.get(os.path.splitext(path.name)[1].lower()):
            kind += f", which {{dataset={dataset}}} takes"
        raise NoFolderError(f"{{0}} is {kind}, not a folder of class folders", path)
    return path


def subdirectories(directory: Path | RemotePath) -> list[Path | RemotePath]:
    """Returns the sorted subdirectories, except hidden ones and __MACOSX; none if `directory` is not a directory."""
    if not directory.is_dir():
        return []
    return sorted(
        as_path(entry) for entry in scandir(directory) if entry.is_dir() and not entry.name.startswith((".", "__"))
    )


def _files_by_class(directory, class_names, others):
    """Returns {class name: sorted paths of its images}, in order of the names, and counts others by their endings."""
    files = {each.name: _image_files(each, others) for each in subdirectories(directory)}
    if not files:
        raise ValueError(f"{directory} has no class folders: put the images of each class into a separate folder")
    if not any(files.values()):
        fault = f"none of the class folders in {directory} has image files"
        if others:
            fault += f", but {counted_endings(others)}"
        raise ValueError(f"{fault}: {quoted(files)}")
    for class_name, paths in files.items():
        if not paths:
            raise ValueError(f"class folder {directory / class_name} has no image files: fill or remove it")
    if len(files) == 1:
        raise ValueError(f"{directory} has only one class, {next(iter(files))!r}: at least two are needed")
    if class_names and sorted(files) != sorted(class_names):
        raise ValueError(
            f"{directory} must hold the classes {quoted(class_names)}, but holds {quoted(files)}; the dataset "
            "images takes any classes"
        )
    return files


def _image_files(directory, others, above=()):
    """Returns the sorted paths of the images in a directory and all directories below it, and counts others by ending.

    A link to one of the directories `above`, given by their real paths, is not followed.
    """
    real = str(directory) if is_remote(directory) else os.path.realpath(directory)
    if real in above:
        return []
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
            if not entry.name.startswith("__"):
                paths += _image_files(as_path(entry), others, (*above, real))
        elif is_remote(entry) or entry.is_file():
            others[ending] += 1
    return sorted(paths)


def _without_tests(images):
    """Returns the part of the images to train on, and that of the fifth which is held out to evaluate on."""
    numbers = images.counts()
    for path, label in zip(images.paths, images.labels, strict=True):
        if numbers[images.class_names[label]] == 1:
            raise ValueError(f"class {images.class_names[label]!r} has one image, {path}: at least two are needed")
    if holds_out_by_rank():
        return images.parted(_a_fifth_by_rank(images))
    return images.split(1 / 5, EVALUATION)


def _a_fifth_by_rank(images):
    """Returns the indices of a fifth of each class, as they were held out before."""
    rows = {}
    for row, label in enumerate(images.labels):
        rows.setdefault(label, []).append(row)
    for each in rows.values():
        each.sort(key=lambda row: hashlib.sha256(os.fsencode(images.keys[row])).digest())
    return [row for each in rows.values() for row in each[: max(1, round(len(each) / 5))]]
