"""Datasets of other packages, found by the entry-point group."""

import sys

import pytest

from estimator_train.app import datasets

MODULE = """
from pathlib import Path
from estimator_train.app.datasets.dataset import About
from estimator_train.app.datasets.images import open_directory

ABOUT = About("fundus, 2 classes", "any", "elsewhere")

def open_dataset(data_dir=None, *, side="left"):
    return open_directory(
        Path(data_dir) / side, name="fundus", default_model="small_cnn", default_epochs=1, image_size=(32, 32)
    )
"""


@pytest.fixture
def fundus(tmp_path, monkeypatch):
    """A distribution on the path whose dataset is `fundus`; it claims the name of one of ours, too."""
    (tmp_path / "fundus_sets.py").write_text(MODULE)
    about = tmp_path / "fundus_sets-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fundus_sets\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[estimator_train.datasets]\nfundus = fundus_sets\nimages = nowhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("fundus_sets", None)


def test_a_dataset_of_another_package_is_opened_by_its_name(fundus):
    for class_name in ("healthy", "ill"):
        (fundus / "right" / class_name).mkdir(parents=True)
        for index in range(2):
            (fundus / "right" / class_name / f"{index}.png").touch()
    data = datasets.open_dataset("fundus", fundus, side="right")
    assert (data.name, data.train_examples, data.class_names) == ("fundus", 2, ("healthy", "ill"))


def test_names_of_other_packages_come_after_ours_which_stay(fundus):
    assert datasets.names() == (*datasets.NAMES, "fundus")
    assert datasets.named("images").__name__ == "estimator_train.app.datasets.images"
    with pytest.raises(ValueError, match="there is no dataset 'octs'; pass one of .*fundus, or tfds:NAME"):
        datasets.open_dataset("octs")


def test_a_dataset_of_ones_own_files_has_nothing_to_download(fundus):
    with pytest.raises(ValueError, match="there is nothing to download for fundus: it takes elsewhere"):
        datasets.download("fundus")
    with pytest.raises(ValueError, match="fundus takes no option split"):
        datasets.open_dataset("fundus", fundus, split="patient")
