"""The retinal OCT images of Kermany et al. 2018, from Kaggle's paultimothymooney/kermany2018."""

import logging
import shutil
import sys
import zipfile
from pathlib import Path

import platformdirs

from estimator_train._engine.host.file_lock import one_at_a_time
from estimator_train._engine.host.paths import RemotePath, StrPath, as_path, local
from estimator_train.app.datasets import kaggle
from estimator_train.app.datasets.archive import UnknownLayoutError, flaw_of, unpack
from estimator_train.app.datasets.dataset import About, Dataset
from estimator_train.app.datasets.images import open_directory, subdirectories
from estimator_train.app.datasets.patients import shared_patients, split_by_patient
from estimator_train.app.errors import SettingError, spelled

CLASS_NAMES = ("CNV", "DME", "DRUSEN", "NORMAL")
ABOUT = About("retinal OCT, 4 classes", "84,452, 5.8 GB", "Kaggle: paultimothymooney/kermany2018")

_KAGGLE_NAME = "paultimothymooney/kermany2018"
_ARCHIVES = ("kermany2018.zip", "archive.zip")  # names given by the client and by a browser
_PUBLISHED = {
    "train": {"CNV": 37205, "DME": 11348, "DRUSEN": 8616, "NORMAL": 26315},
    "eval": {"CNV": 242, "DME": 242, "DRUSEN": 242, "NORMAL": 242},
}
_log = logging.getLogger(__name__)


def open_dataset(data_dir: StrPath | None = None, *, split: str | None = None) -> Dataset:
    """Returns the dataset in `data_dir`, or in the user's cache, where it is downloaded on first use.

    It warns if image counts differ from the published ones, and about patients with images in both train and test.

    Args:
      data_dir: the zip file, its unpacked tree, a directory above either, or a directory of the four class directories;
        a zip is extracted next to itself.
      split: "patient" evaluates on the training images of a fifth of the patients instead of the test images.

    Raises ValueError if `data_dir` does not hold the dataset, or its zip file is damaged; see `kaggle.download` and
    `images.checked_directory`, too.
    """
    if split not in (None, "patient"):
        raise ValueError(f'split must be "patient" or None, got {split!r}')
    directory = download() if data_dir is None else data_dir
    tree = _find(directory)
    if tree is None:
        raise ValueError(
            f"{directory} has no folder train/{CLASS_NAMES[0]}, nor have the folders in it; "
            f"estimator_train datasets download oct2017 --data-dir {directory} fetches it"
        )
    data = open_directory(tree, name="oct2017", class_names=CLASS_NAMES, default_model="vgg16", image_size=(224, 224))
    _check_counts(data, tree)
    if split == "patient":
        return split_by_patient(data)
    shared = len(shared_patients(data.train.paths, data.eval.paths))
    if shared:
        patients = "patients have" if shared > 1 else "patient has"
        split_by = spelled("{split=patient}")
        _log.warning("oct2017: %d %s images in both train and test; %s has none", shared, patients, split_by)
    return data


def download(data_dir: StrPath | None = None) -> Path:
    """Downloads the dataset into `data_dir`, or the user's cache for None, unless it is there; returns the directory.

    A lock lets one process download at a time, and an interrupted download is resumed. See `kaggle.download`.
    """
    directory = local(data_dir or _home())
    directory.mkdir(parents=True, exist_ok=True)
    with _alone(directory / ".lock"):
        if _find(directory) is None:
            _fetch(directory, directory / ".download")
        shutil.rmtree(directory / ".download", ignore_errors=True)
    return directory


def is_here(data_dir: StrPath | None = None) -> bool:
    """Returns whether the dataset is in the user's cache, or `data_dir` has no zip file that must be unpacked."""
    if data_dir is None:
        return _home().is_dir() and _tree(_home()) is not None
    path = as_path(data_dir)
    if isinstance(path, RemotePath) or _tree(path) is not None:
        return True
    archives = [path, *(path / name for name in _ARCHIVES)]
    return not any(zipfile.is_zipfile(each) and not each.with_suffix("").exists() for each in archives)


def is_in(directory: Path | RemotePath) -> bool:
    """Returns whether a directory holds the extracted tree: train, with these four classes and no others.

    The four directories alone may be somebody's own scans.
    """
    # To look below a remote one takes a request for each file.
    tree = directory if isinstance(directory, RemotePath) else _tree(directory)
    if tree is None:
        return False
    return [each.name for each in subdirectories(tree / "train")] == [*CLASS_NAMES]


def _home():
    return Path(platformdirs.user_cache_dir("estimator_train"), "oct2017")


def _fetch(directory, downloads):
    archive = downloads / _ARCHIVES[0]
    downloads.mkdir(exist_ok=True)
    try:
        if not zipfile.is_zipfile(archive):  # a partial zip lacks the directory at its end
            kaggle.download(_KAGGLE_NAME, downloads)
            if flaw := flaw_of(archive):
                raise ValueError(f"{archive}, which Kaggle sent, {flaw}")
        unpack(archive, directory / archive.stem, _place)
    except UnknownLayoutError as error:
        text = "{0}; it is kept: unpack it, and give the folder above train as {data_dir}"
        raise SettingError(text, error) from error
    except ValueError as error:
        archive.unlink(missing_ok=True)
        raise ValueError(f"{error}; it was deleted: run again to download it again") from error


def _find(data_dir):
    """Returns the tree in `data_dir`, unpacking a zip file if necessary, or None if there is none."""
    path = as_path(data_dir)
    if isinstance(path, RemotePath):
        return _tree(path)
    if path.is_file():
        if flaw := flaw_of(path):
            raise ValueError(f"{path} {flaw}")
        return _unpacked(path)
    if not path.exists() and _tree(path) is None:
        raise FileNotFoundError(f"there is no folder {path}")
    archives = (path / name for name in _ARCHIVES if zipfile.is_zipfile(path / name))
    return _tree(path) or next(map(_unpacked, archives), None)


def _unpacked(archive):
    directory = archive.with_suffix("")
    if not directory.exists():
        with _alone(archive.with_name(f".{archive.name}.lock")):
            if not directory.exists():
                unpack(archive, directory, _place)
    return _tree(directory)


def _tree(directory):
    # The archive contains its tree twice, nested, in a directory whose name ends in a space, which is easily lost.
    level = [directory, as_path(f"{directory} ")]
    for _ in range(3):
        for candidate in level:
            if (candidate / "train" / CLASS_NAMES[0]).is_dir():
                return candidate
        level = [below for candidate in level for below in subdirectories(candidate)]
    return directory if all((directory / name).is_dir() for name in CLASS_NAMES) else None


def _place(parts):
    """Returns the destination of a file, train/CNV/NAME, whatever is above it, which merges the archive's two trees."""
    if len(parts) < 3 or "__MACOSX" in parts:
        return None
    split, class_name, name = parts[-3:]
    if split not in ("train", "test", "val") or class_name not in CLASS_NAMES or name.startswith("."):
        return None
    return Path(split, class_name, name)


def _check_counts(data, tree):
    counts = data.class_counts()
    if any(counts[side] != published for side, published in _PUBLISHED.items()):
        held = [
            f"{folder} {name} {counts[side][name]} of {number}"
            for folder, side in (("train", "train"), ("test", "eval"))
            for name, number in _PUBLISHED[side].items()
        ]
        _log.warning("oct2017: %s is not the complete published dataset: %s", tree, ", ".join(held))


def _alone(path):
    """Lets one process at a time into a block, with a lock on the file `path`."""
    waiting = f"waiting for another process that is downloading to {path.parent}"
    return one_at_a_time(path, lambda: print(waiting, file=sys.stderr))
