"""Drawn OCT images: the same for a seed, laid out as OCT2017 is, drawn once and whole."""

import subprocess
import sys

import numpy as np
import platformdirs
import pytest
from PIL import Image

from estimator_train.app import datasets
from estimator_train.app.datasets import synthetic_oct

FEW = {"train": 2, "test": 1}


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.jpeg"))}


@pytest.fixture
def drawings(monkeypatch, tmp_path):
    """Reduces the default numbers, and uses a temporary cache directory; returns the list of drawn directories."""
    drawn = []
    draw_files = synthetic_oct._draw_files

    def record(folder, *args):
        drawn.append(folder)
        draw_files(folder, *args)

    monkeypatch.setattr(synthetic_oct, "_draw_files", record)
    monkeypatch.setattr(synthetic_oct, "IMAGES_PER_CLASS", FEW)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    return drawn


def test_an_evaluation_draws_nothing_into_a_folder_that_is_missing(drawings, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere"):
        datasets.open_evaluation("synthetic_oct", tmp_path / "nowhere", synthetic_oct.CLASS_NAMES, image_size=(96, 96))
    assert not drawings


def test_a_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        synthetic_oct.draw_dataset(tmp_path / name, seed=seed, images_per_class=FEW)
    one, same, other = (contents(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same
    assert one.keys() == other.keys()
    assert not set(one.values()) & set(other.values())
    assert len(set(one.values())) == 12


def test_more_images_leave_the_first_ones_as_they_were(tmp_path):
    synthetic_oct.draw_dataset(tmp_path / "few", images_per_class={"train": 1, "test": 1})
    synthetic_oct.draw_dataset(tmp_path / "more", images_per_class={"train": 2, "test": 1})
    assert contents(tmp_path / "few").items() < contents(tmp_path / "more").items()


def test_files_are_laid_out_as_in_oct2017_with_patients_on_one_side_only(tmp_path):
    synthetic_oct.draw_dataset(tmp_path / "set", images_per_class=FEW)
    paths = list(contents(tmp_path / "set"))
    assert len(paths) == 4 * 3
    assert "train/CNV/CNV-100001-1.jpeg" in paths
    assert "test/NORMAL/NORMAL-200000-1.jpeg" in paths


@pytest.mark.parametrize("class_name", synthetic_oct.CLASS_NAMES)
def test_images_are_like_the_real_ones_in_size_and_brightness(tmp_path, class_name):
    pixels = synthetic_oct.draw_image(class_name, np.random.default_rng(1))
    assert (pixels.shape, pixels.dtype) == ((496, 512), np.uint8)
    assert 25 < pixels.mean() < 100
    path = tmp_path / "image.jpeg"
    Image.fromarray(pixels).save(path, quality=75)
    assert 30_000 < path.stat().st_size < 90_000
    with Image.open(path) as image:
        assert image.mode == "L"


def test_the_dataset_is_drawn_once_into_the_cache_folder_of_its_seed(drawings, tmp_path):
    for seed in (0, 0, 5):
        data = datasets.open_dataset("synthetic_oct", seed=seed)
    assert len(drawings) == 2
    assert data.train.paths[0].startswith(str(tmp_path / "cache" / "estimator_train" / "synthetic_oct" / "seed-5"))
    assert (data.train_examples, data.eval_examples) == (8, 4)
    assert data.class_names == ("CNV", "DME", "DRUSEN", "NORMAL")
    assert (data.name, data.default_model) == ("synthetic_oct", "small_cnn")


def test_the_dataset_is_drawn_into_an_empty_data_dir(drawings, tmp_path):
    (tmp_path / "empty").mkdir()
    assert datasets.open_dataset("synthetic_oct", tmp_path / "empty").eval_examples == 4


def test_a_drawing_that_breaks_off_leaves_nothing(monkeypatch, tmp_path):
    def break_off(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(synthetic_oct, "draw_image", break_off)
    with pytest.raises(KeyboardInterrupt):
        synthetic_oct.draw_dataset(tmp_path / "set", images_per_class=FEW)
    assert not list(tmp_path.iterdir())


def test_of_two_drawings_at_once_the_first_to_end_is_kept(monkeypatch, tmp_path):
    draw_files = synthetic_oct._draw_files
    synthetic_oct.draw_dataset(tmp_path / "first", seed=1, images_per_class=FEW)
    expected = contents(tmp_path / "first")

    def be_overtaken(folder, *args):
        draw_files(folder, *args)
        (tmp_path / "first").rename(tmp_path / "set")

    monkeypatch.setattr(synthetic_oct, "_draw_files", be_overtaken)
    synthetic_oct.draw_dataset(tmp_path / "set", seed=0, images_per_class=FEW)
    assert contents(tmp_path / "set") == expected
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_negative_seed_is_refused(tmp_path):
    with pytest.raises(ValueError, match="seed must be 0 or above, got -1"):
        synthetic_oct.draw_dataset(tmp_path / "set", seed=-1)


def test_an_unknown_dataset_is_refused():
    with pytest.raises(ValueError, match="no dataset 'mnist'; pass one of synthetic_oct, oct2017, images"):
        datasets.open_dataset("mnist")


def test_opening_datasets_and_checking_weights_takes_no_tensorflow(tmp_path):
    script = f"""
import sys
from estimator_train.app import datasets, models
from estimator_train.app.datasets import synthetic_oct
synthetic_oct.draw_dataset({str(tmp_path / "set")!r}, images_per_class={FEW})
for name in ("synthetic_oct", "oct2017", "images", "cats_vs_dogs"):
    datasets.open_dataset(name, {str(tmp_path / "set")!r}, limit=4)
datasets.open_dataset("fashion_mnist", limit=20)
for name in datasets.names():
    datasets.named(name)
models.check_weights("none")
assert not {{"tensorflow", "tf_keras", "keras"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
