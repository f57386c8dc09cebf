"""The retinal OCT images of Kermany et al. 2018, as unpacked from Kaggle's paultimothymooney/kermany2018."""

from pathlib import Path

from estimator_train.datasets.images import open_folder, subfolders

CLASS_NAMES = ("CNV", "DME", "DRUSEN", "NORMAL")


def open_dataset(data_dir=None):
    """Returns the dataset in `data_dir`, at most two folders below it, for the archive nests and doubles its tree.

    Raises:
      ValueError: `data_dir` is None or does not hold the data set.
      FileNotFoundError, NotADirectoryError: it is no folder.
    """
    if data_dir is None:
        raise ValueError(
            "oct2017 needs --data-dir, the folder of the unpacked Kaggle data set paultimothymooney/kermany2018"
        )
    return open_folder(
        _find(data_dir),
        name="oct2017",
        class_names=CLASS_NAMES,
        default_model="vgg16",
        default_epochs=5,
        image_size=(224, 224),
    )


def _find(data_dir):
    # The archive's own folder is named with a blank at the end, which is easily left out.
    level = [Path(data_dir), Path(f"{data_dir} ")]
    for _ in range(3):
        for folder in level:
            if (folder / "train" / CLASS_NAMES[0]).is_dir():
                return folder
        level = [below for folder in level for below in subfolders(folder)]
    if not Path(data_dir).is_dir():
        return data_dir  # open_folder says what is wrong
    raise ValueError(f"{data_dir} has no folder train/{CLASS_NAMES[0]}, nor have the folders in it: see --data-dir")
