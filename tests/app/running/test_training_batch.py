"""A sample of a training batch has the images that training makes of the data, whatever holds it, and their labels."""

import dataclasses

import numpy as np
import pytest
from PIL import Image
from records import write_records

from estimator_train.app import datasets
from estimator_train.app.running import training_batch

PIXELS = np.full((6, 8, 3), 90, np.uint8)


@pytest.fixture
def image_path(tmp_path):
    for number in range(4):
        Image.fromarray(PIXELS).save(tmp_path / f"{number}.png")
    return tmp_path / "{}.png"


def npz(tmp_path):
    images, labels = np.stack([PIXELS] * 3), np.array([0, 1, 1])
    np.savez(tmp_path / "data.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    return "npz", tmp_path / "data.npz", {}


def tfrecord(tmp_path):
    for name in ("train.tfrecord", "test.tfrecord"):
        write_records(tmp_path / name, [(PIXELS, 0), (PIXELS, 1)])
    (tmp_path / "labels.txt").write_text("0\n1\n")
    return "tfrecord", tmp_path, {}


def manifest(labels, task):
    def write(tmp_path):
        sides = ("train", "train", "test", "test")
        rows = [f"{number}.png,{label},{side}" for number, (label, side) in enumerate(zip(labels, sides, strict=True))]
        (tmp_path / "labels.csv").write_text("\n".join(["path,label,split", *rows]))
        return "manifest", tmp_path / "labels.csv", {"task": task}

    return write


@pytest.mark.parametrize(
    "write, labels",
    [
        (npz, {"0", "1"}),
        (tfrecord, {"0", "1"}),
        (manifest(["cat", "dog", "cat", "dog"], "classification"), {"cat", "dog"}),
        (manifest(["cat|dog", "", "cat", "dog"], "multilabel"), {"cat, dog", "none"}),
        (manifest([1.5, 20, 3, 4], "regression"), {"1.5", "20"}),
    ],
)
def test_images_of_each_kind_of_data_are_shown_with_their_labels(write, labels, tmp_path, image_path, settings):
    name, data_dir, options = write(tmp_path)
    data = datasets.open_dataset(name, data_dir, **options)
    about = {"dataset": name, "class_names": data.class_names, "image_size": (3, 4), **options}
    shown = training_batch.sample(dataclasses.replace(settings, **about), data, None, 8)
    assert {label for _, label in shown} == labels
    assert {image.size for image, _ in shown} == {(4, 3)}
    assert np.ptp(np.asarray(shown[0][0])) == 0 and abs(int(np.asarray(shown[0][0])[0, 0, 0]) - 90) <= 1


def test_mixed_images_have_the_share_of_each_class(settings):
    data = datasets.open_dataset("images", settings.data_dir)
    labels = [label for _, label in training_batch.sample(settings, data, "mixup", 8)]
    assert any(label.startswith("bright 0.") and ", dark 0." in label for label in labels)


def test_data_without_images_and_files_that_have_gone_show_none(tmp_path, image_path, settings):
    assert training_batch.sample(settings, None, None, 8) == []
    name, data_dir, _ = manifest(["cat", "dog", "cat", "dog"], "classification")(tmp_path)
    data = datasets.open_dataset(name, data_dir)
    for number in range(4):
        (tmp_path / f"{number}.png").unlink()
    settings = dataclasses.replace(settings, class_names=data.class_names)
    assert training_batch.sample(settings, data, None, 8) == []
