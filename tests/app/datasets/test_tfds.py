"""TensorFlow Datasets: with its own mocked data, and without the package."""

import importlib.util
import logging
import sys
import types

import numpy as np
import pytest
from PIL import Image

from estimator_train.app import datasets
from estimator_train.app.datasets import tfds
from estimator_train.app.datasets.dataset import Dataset, default_settings
from estimator_train.app.datasets.tfds import Named, TfdsSplit


def test_without_the_package_the_hint_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    for name in ("tfds:mnist", "cats_vs_dogs"):
        with pytest.raises(ValueError, match=r"^(mnist|cats_vs_dogs) needs .*pip install tensorflow-datasets \w+$"):
            datasets.open_dataset(name)


def test_asking_whether_data_is_here_prints_no_line_of_the_package(monkeypatch, capfd):
    def builder(name, data_dir):
        logging.getLogger("absl").warning("Variant folder %s has no dataset_info.json", data_dir)
        return types.SimpleNamespace(is_prepared=lambda: False)

    monkeypatch.setattr(tfds, "_builder", builder)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert not Named("mnist").is_here("folder")
    assert capfd.readouterr() == ("", "")
    assert not logging.getLogger("absl").disabled


def test_cats_vs_dogs_may_be_a_local_folder(tmp_path):
    for path in [tmp_path / split / name for split in ("train", "test") for name in ("cats", "dogs")]:
        path.mkdir(parents=True)
        Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(path / "1.jpg")
    data = datasets.open_dataset("cats_vs_dogs", tmp_path)
    assert (data.name, data.default_model, data.class_names) == ("cats_vs_dogs", "mobilenet_v2", ("cats", "dogs"))
    assert (data.train_examples, data.eval_examples) == (2, 2)


@pytest.fixture(name="tfds")
def package(tmp_path, monkeypatch):
    package = pytest.importorskip("tensorflow_datasets")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    return package


def test_any_image_classification_set_is_read(tfds):
    with tfds.testing.mock_data(num_examples=10):
        data = datasets.open_dataset("tfds:mnist")
        assert (data.name, data.default_model, data.image_size) == ("tfds:mnist", "small_cnn", (28, 28))
        assert len(data.class_names) == 10
        ((images, labels),) = data.eval_input_fn(image_size=(28, 28), batch_size=16)()
        assert images.shape == (10, 28, 28, 3) and labels.shape == (10, 10)
        assert 0 <= images.numpy().min() < images.numpy().max() <= 1
        (batch,) = data.train_input_fn(image_size=(28, 28), batch_size=20, num_epochs=2, seed=1)()
        np.testing.assert_array_equal(batch[1].numpy().sum(1), np.ones(20))


def test_images_of_several_sizes_are_resized(tfds):
    with tfds.testing.mock_data(num_examples=10):
        data = datasets.open_dataset("cats_vs_dogs")
        assert (data.name, data.default_model, data.image_size) == ("cats_vs_dogs", "mobilenet_v2", (224, 224))
        assert (data.train.name, data.eval.name) == ("train[:80%]", "train[80%:]")
        images, _ = next(iter(data.eval_input_fn(image_size=(32, 24), batch_size=2)()))
        assert images.shape == (2, 32, 24, 3)


def test_the_end_of_the_training_split_is_held_out():
    numbers = {"train": 10, "test": 4, "train[:8]": 8, "train[8:10]": 2}
    splits = {name: types.SimpleNamespace(num_examples=number) for name, number in numbers.items()}
    builder = types.SimpleNamespace(info=types.SimpleNamespace(splits=splits))
    about = {"name": "tfds:mnist", "class_names": ("a", "b"), **default_settings(28, 28)}
    train, test = (TfdsSplit(builder=builder, name=name) for name in ("train", "test"))
    data = Dataset(**about, train=train, eval=test).with_validation(0.2)
    assert (data.train.name, data.validation.name) == ("train[:8]", "train[8:10]")
    assert (data.train_examples, data.validation_examples, data.to_choose_on().eval_examples) == (8, 2, 2)
    assert not data.with_validation(0).validation_examples


def test_a_folder_with_what_was_prepared_is_no_folder_of_classes(tfds, tmp_path):
    with tfds.testing.mock_data(num_examples=10):
        prepared = tmp_path / "cats_vs_dogs" / str(tfds.builder("cats_vs_dogs").version)
        prepared.mkdir(parents=True)
        (tmp_path / "downloads").mkdir()
        (prepared / "dataset_info.json").write_text("{}")
        assert datasets.open_dataset("cats_vs_dogs", tmp_path).train.name == "train[:80%]"


def test_what_is_prepared_is_looked_for_in_its_directory(tfds, monkeypatch):
    def builder(name, data_dir):
        return types.SimpleNamespace(is_prepared=lambda: data_dir == "there")

    monkeypatch.setattr("estimator_train.app.datasets.tfds._builder", builder)
    named = datasets.named("tfds:mnist")
    assert (named.is_here("there"), named.is_here("elsewhere"), named.is_here()) == (True, False, False)


def test_other_sets_are_refused(tfds):
    with pytest.raises(ValueError, match="^TensorFlow Datasets has no 'no_such_set': see https://www.tensorflow.org"):
        datasets.open_dataset("tfds:no_such_set")
    with pytest.raises(ValueError, match="tfds:imdb_reviews does not have an image and a class per example") as caught:
        datasets.open_dataset("tfds:imdb_reviews")
    assert "\n" not in str(caught.value)


def test_offline_is_one_line(tfds, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("HTTPSConnectionPool(host='x'):\nname resolution")

    monkeypatch.setattr("tensorflow_datasets.core.dataset_builder.DatasetBuilder.download_and_prepare", fail)
    with pytest.raises(ConnectionError, match="^tfds:mnist could not be downloaded .*name resolution") as caught:
        datasets.open_dataset("tfds:mnist")
    assert "\n" not in str(caught.value)
