"""Hugging Face's datasets: local folders of theirs, and what is said without the package."""

import sys

import numpy as np
import pytest
from PIL import Image

from estimator_train.app import datasets
from estimator_train.app.datasets.held_out import BY_RANK, holding_out_by


def test_without_the_package_the_hint_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "datasets", None)
    for name, data_dir in (("hf:beans", None), ("hf", tmp_path)):
        with pytest.raises(ValueError, match=r"^hf(:beans)? needs .*pip install datasets$"):
            datasets.open_dataset(name, data_dir)


def test_a_folder_must_be_there(tmp_path):
    with pytest.raises(ValueError, match="hf needs data_dir"):
        datasets.open_dataset("hf")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        datasets.open_dataset("hf", tmp_path / "nowhere")


@pytest.fixture
def hf(tmp_path, monkeypatch):
    package = pytest.importorskip("datasets", exc_type=ImportError)
    monkeypatch.setattr(package.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    package.disable_progress_bars()
    return package


def test_what_is_downloaded_is_looked_for_in_its_directory(hf, tmp_path):
    (tmp_path / "own" / "me___beans").mkdir(parents=True)
    named = datasets.named("hf:me/beans")
    assert (named.is_here(tmp_path / "own"), named.is_here()) == (True, False)


@pytest.fixture
def splits(hf):
    """Makes a DatasetDict; an image's pixels have its number, and even numbers are class a."""

    def make(kind=None, **numbers):
        label = kind or hf.ClassLabel(names=["a", "b"])
        columns = hf.Features({"image": hf.Image(), "label": label, "note": hf.Value("string")})
        return hf.DatasetDict(
            {
                split: hf.Dataset.from_dict(
                    {
                        "image": [Image.fromarray(np.full((6, 8, 3), index, np.uint8)) for index in range(number)],
                        "label": [index % 2 for index in range(number)],
                        "note": ["x"] * number,
                    },
                    features=columns,
                )
                for split, number in numbers.items()
            }
        )

    return make


def test_a_saved_set_is_read_and_its_order_resumes_in_the_middle(splits, tmp_path):
    splits(train=10, validation=4).save_to_disk(tmp_path / "saved")
    data = datasets.open_dataset("hf", tmp_path / "saved")
    assert (data.name, data.class_names, data.image_size) == ("hf", ("a", "b"), (6, 8))
    assert data.class_counts() == {"train": {"a": 5, "b": 5}, "eval": {"a": 2, "b": 2}}
    ((images, labels),) = data.eval_input_fn(image_size=(3, 4), batch_size=8)()
    assert images.shape == (4, 3, 4, 3)
    np.testing.assert_allclose(images[:, 0, 0, 0] * 255, range(4), atol=1e-3)
    np.testing.assert_array_equal(labels, np.eye(2)[[0, 1, 0, 1]])
    input_fn = data.train_input_fn(image_size=(6, 8), batch_size=4, num_epochs=2, seed=3)
    order = np.concatenate([images[:, 0, 0, 0] for images, _ in input_fn()])
    rest = np.concatenate([images[:, 0, 0, 0] for images, _ in input_fn.starting_at(12, 3)()])
    np.testing.assert_array_equal(rest, order[12:])
    assert data.limited(4).class_counts() == {"train": {"a": 2, "b": 2}, "eval": {"a": 2, "b": 2}}


def test_without_labels_to_evaluate_on_a_fifth_is_set_apart(splits, hf, tmp_path):
    both = splits(train=20, test=4)
    both["test"] = both["test"].map(lambda row: {"label": -1})
    both.save_to_disk(tmp_path / "saved")
    data = datasets.open_dataset("hf", tmp_path / "saved")
    # Hashes of the files choose, and Pillow's next version may write others.
    assert data.train_examples + data.eval_examples == 20 and 0 < data.eval_examples < 10
    with holding_out_by(BY_RANK):
        data = datasets.open_dataset("hf", tmp_path / "saved")
    assert data.class_counts() == {"train": {"a": 8, "b": 8}, "eval": {"a": 2, "b": 2}}


def test_folders_of_parquet_files_and_of_images_are_read(splits, hf, tmp_path):
    (tmp_path / "parquet").mkdir()
    splits(train=6)["train"].to_parquet(tmp_path / "parquet" / "train-00000-of-00001.parquet")
    splits(train=4)["train"].to_parquet(tmp_path / "parquet" / "test-00000-of-00001.parquet")
    data = datasets.open_dataset("hf", tmp_path / "parquet")
    assert (data.train_examples, data.eval_examples) == (6, 4)
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            (tmp_path / "folder" / split / name).mkdir(parents=True)
            for index in range(3):
                Image.new("RGB", (8, 6)).save(tmp_path / "folder" / split / name / f"{index}.png")
    data = datasets.open_dataset("hf", tmp_path / "folder")
    assert data.class_names == ("cat", "dog") and data.class_counts()["eval"] == {"cat": 3, "dog": 3}


def test_other_columns_and_folders_are_refused(splits, hf, tmp_path):
    splits(kind=hf.Value("int64"), train=2).save_to_disk(tmp_path / "saved")
    with pytest.raises(
        ValueError, match="does not have one image and one class per example: it has 'image', 'label', 'note'$"
    ):
        datasets.open_dataset("hf", tmp_path / "saved")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty cannot be loaded"):
        datasets.open_dataset("hf", tmp_path / "empty")


def test_a_validation_split_beside_test_chooses_or_a_share_of_train(splits, tmp_path):
    splits(train=20, validation=6, test=4).save_to_disk(tmp_path / "saved")
    data = datasets.open_dataset("hf", tmp_path / "saved")
    assert (data.eval_examples, data.validation_examples, data.validation_name) == (4, 6, "validation")
    assert data.to_choose_on().eval_examples == 6 and data.limited(2).validation_examples == 2
    split = data.with_validation(0.2)
    assert split.train_examples + split.validation_examples == 20 and 0 < split.validation_examples < 10
    assert split.eval_examples == 4
    assert not data.with_validation(0).validation_examples
