"""The CycleGAN recipe: losses over replicas, resumed runs, image grids, and bad data."""

import io
import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from PIL import Image

from estimator_train._engine.events import read_eval_metrics
from estimator_train.app.models import cyclegan as networks
from estimator_train.app.recipes import cyclegan
from estimator_train.app.report.image_grid import write_image_grid
from estimator_train.hooks import ProgressHook

SMALL = {"image_size": (16, 16), "filters": 2}
LOSSES = {f"loss_{name}/{part}" for name in "GF" for part in ("loss", "cycle", "identity", "total")}
LOSSES |= {"loss", "loss_X/loss", "loss_Y/loss"}
ERRORS = {f"mae_{name}/{part}" for name in "GF" for part in ("cycle", "identity")}


class Recorder(tf.compat.v1.train.SessionRunHook):
    """Keeps the losses of every step, and stops after `limit` of them."""

    def __init__(self, limit=None):
        self.steps = []
        self._limit = limit

    def begin(self):
        graph = tf.compat.v1.get_default_graph()
        self._losses = {name: graph.get_tensor_by_name(f"{name}:0") for name in LOSSES}

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._losses)

    def after_run(self, run_context, run_values):
        self.steps.append(run_values.results)
        if len(self.steps) == self._limit:
            run_context.request_stop()


@pytest.fixture(scope="module", autouse=True)
def small():
    """Few images, and networks that are traced in a second."""

    def tiny_generator(image_size, filters, name):
        image = keras.Input((*image_size, 3))
        return keras.Model(image, keras.layers.Conv2D(3, 3, padding="same", activation="tanh")(image), name=name)

    def tiny_discriminator(image_size, filters, name):
        image = keras.Input((*image_size, 3))
        return keras.Model(image, keras.layers.Conv2D(1, 4, strides=4)(image), name=name)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(cyclegan, "DRAWN", {"trainA": 6, "trainB": 6, "testA": 3, "testB": 3})
        monkeypatch.setattr(networks, "build_generator", tiny_generator)
        monkeypatch.setattr(networks, "build_discriminator", tiny_discriminator)
        yield


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Five uninterrupted steps, three of them in the first epoch: their directory, losses and metrics."""
    model_dir, recorder = tmp_path_factory.mktemp("straight"), Recorder()
    metrics = cyclegan.train(str(model_dir), batch_size=2, max_steps=5, hooks=[recorder], **SMALL)
    return model_dir, recorder.steps, metrics


def test_every_loss_and_error_has_its_name(straight):
    _, steps, metrics = straight
    assert metrics.keys() == LOSSES | ERRORS | {"global_step"} and metrics["global_step"] == 5
    assert np.isfinite([*metrics.values(), *(value for step in steps for value in step.values())]).all()
    for values in (*steps, metrics):
        for name in "GF":
            parts = sum(values[f"loss_{name}/{part}"] for part in ("loss", "cycle", "identity"))
            assert values[f"loss_{name}/total"] == pytest.approx(parts, rel=1e-5)
        totals = sum(values[name] for name in ("loss_G/total", "loss_F/total", "loss_X/loss", "loss_Y/loss"))
        assert values["loss"] == pytest.approx(totals, rel=1e-5)
    for name in "GF":
        assert metrics[f"loss_{name}/cycle"] == pytest.approx(10 * metrics[f"mae_{name}/cycle"], rel=1e-5)


@pytest.mark.slow
def test_two_replicas_give_the_losses_of_one(straight, tmp_path, mirrored):
    model_dir, steps, _ = straight
    recorder = Recorder()
    on_two = cyclegan.train(str(tmp_path), strategy=mirrored(2), max_steps=3, hooks=[recorder], **SMALL)
    for ours, theirs in zip(recorder.steps, steps[:3], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    # The three test pairs are a batch for each replica, and one more for the first.
    on_one = read_eval_metrics(str(model_dir / "eval" / "events.*"))[3]
    assert {name: on_two[name] for name in on_one} == pytest.approx(on_one, rel=1e-4, abs=1e-5)


@pytest.mark.slow
def test_a_run_that_was_stopped_gives_the_numbers_of_one_that_was_not(straight, tmp_path, capsys):
    _, steps, metrics = straight
    first, second = Recorder(limit=2), Recorder()
    half = cyclegan.train(str(tmp_path), batch_size=2, max_steps=5, hooks=[first], **SMALL)
    assert half["global_step"] == 2
    whole = cyclegan.train(str(tmp_path), batch_size=2, max_steps=5, hooks=[second, ProgressHook()], **SMALL)
    for ours, theirs in zip(first.steps + second.steps, steps, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    assert whole == pytest.approx(metrics, rel=1e-5, abs=1e-6)
    seconds_of_epochs = r"^epoch (\d+) of 10: \d+\.\d s$"
    assert re.findall(seconds_of_epochs, capsys.readouterr().err, re.MULTILINE) == ["1", "2"]


def test_checkpoints_have_the_state_of_all_four_optimizers(straight):
    model_dir, _, _ = straight
    reader = tf.train.load_checkpoint(str(model_dir))
    for name in "GFXY":
        assert reader.get_tensor(f"optimizer/{name}/_iterations/.ATTRIBUTES/VARIABLE_VALUE") == 5
        slots = [key for key in reader.get_variable_to_shape_map() if key.startswith(f"optimizer/{name}/_variables/")]
        weights = [key for key in reader.get_variable_to_shape_map() if key.startswith(f"networks/{name}/layer")]
        # Adam keeps two of each weight, and its learning rate.
        assert len(slots) == 2 * len(weights) > 0


def test_grids_of_images_are_files_and_events(straight):
    model_dir, _, _ = straight
    files = sorted((model_dir / "images").iterdir())
    assert [file.name for file in files] == ["cycle-000003.png", "cycle-000005.png"]
    grid = np.asarray(Image.open(files[1]))
    assert grid.shape == (3 * 16, 3 * 16, 3)  # three test images: x, G(x), F(G(x))
    x = cyclegan.draw("testA", (16, 16))
    np.testing.assert_allclose(grid[:, :16], 255 * x.reshape(48, 16, 3), atol=1)
    (events,) = (str(file) for file in model_dir.glob("events.*"))
    values = [value for event in tf.compat.v1.train.summary_iterator(events) for value in event.summary.value]
    images = [value.image.encoded_image_string for value in values if value.tag == "cycle"]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(images[1]))), grid)
    assert {"loss", "loss_G/total", "loss_X/loss"} <= {value.tag for value in values}


def test_a_grid_has_rows_of_images(tmp_path):
    rows = np.zeros((2, 3, 4, 5, 3))
    rows[1, 2] = 2.0  # brighter than white
    path = write_image_grid(str(tmp_path), "grid", 7, rows)
    assert path == str(tmp_path / "images" / "grid-000007.png")
    grid = np.asarray(Image.open(path))
    assert grid.shape == (8, 15, 3) and grid[4:, 10:].min() == 255 and grid.sum() == 255 * 4 * 5 * 3


@pytest.mark.slow
def test_every_epoch_has_another_order_and_images_are_decoded_once(tmp_path):
    images = cyclegan.open_images(folder(tmp_path), (16, 16))
    for path in tmp_path.glob("*/*.png"):
        path.unlink()  # they are in memory

    def epoch(number, skip=0):
        return np.concatenate([list(batch) for batch in cyclegan.training_pairs(images, 1, number, 0, skip=skip)], 1)

    first, second = epoch(0), epoch(1)
    assert first.shape == (2, 4, 16, 16, 3) and -1 <= first.min() < first.max() <= 1
    np.testing.assert_array_equal(first, epoch(0))
    np.testing.assert_array_equal(first[:, 3:], epoch(0, skip=3))
    assert np.abs(first - second).max() > 0.1


@pytest.mark.slow
def test_sets_of_unequal_length_are_reported_and_the_smaller_counts(tmp_path, warnings):
    images = cyclegan.open_images(folder(tmp_path, trainB=2), (16, 16))
    assert cyclegan.number_of_pairs(images, "train") == 2
    assert cyclegan.number_of_pairs(images, "test") == 1
    assert warnings[-1:] == ["trainA has 4 images and trainB has 2: an epoch uses 2 of each."]


def test_a_missing_or_empty_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere"):
        cyclegan.open_images(tmp_path / "nowhere", (16, 16))
    data = folder(tmp_path)
    for path in (data / "trainB").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="trainB has no JPEG or PNG files"):
        cyclegan.open_images(data, (16, 16))
    (data / "trainB").rmdir()
    with pytest.raises(FileNotFoundError, match="has no folder trainB; it needs trainA, trainB, testA, testB"):
        cyclegan.open_images(data, (16, 16))


@pytest.mark.slow
def test_a_file_that_cannot_be_decoded_is_named(tmp_path):
    data = folder(tmp_path)
    (data / "testB" / "broken.png").write_bytes(b"no image")
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(str(data / "testB" / "broken.png"))):
        cyclegan.open_images(data, (16, 16))


def test_splits_of_tensorflow_datasets_are_the_folders(monkeypatch):
    class Builder:
        info = SimpleNamespace(splits=dict.fromkeys(cyclegan.PARTS))

        def as_dataset(self, split):
            image = np.full((20, 24, 3), 255 * split.endswith("B"), np.uint8)
            return tf.data.Dataset.from_tensors({"image": image, "label": 0})

    monkeypatch.setattr(cyclegan.tfds, "prepared", lambda name: Builder())
    images = cyclegan.open_images("tfds:cycle_gan/horse2zebra", (16, 16))
    assert [len(images[part]) for part in cyclegan.PARTS] == [1] * 4
    assert [float(tf.reduce_mean(next(iter(images[part])))) for part in cyclegan.PARTS] == [-1, 1, -1, 1]
    Builder.info.splits = {"train": None, "test": None}
    with pytest.raises(ValueError, match="tfds:mnist has no split trainA, trainB, testA, testB"):
        cyclegan.open_images("tfds:mnist", (16, 16))


def test_fewer_pairs_than_a_step_takes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="6 pairs are fewer than a step takes, 7 on each of 1 replicas"):
        cyclegan.train(str(tmp_path), batch_size=7, **SMALL)


def folder(path, **numbers):
    """Draws PNG files of random pixels: four in trainA and trainB, one in testA and testB, or `numbers`."""
    rng = np.random.default_rng(2)
    for part, number in ({"trainA": 4, "trainB": 4, "testA": 1, "testB": 1} | numbers).items():
        (path / part).mkdir()
        for index in range(number):
            Image.fromarray(rng.integers(0, 255, (20, 24, 3)).astype("uint8")).save(path / part / f"{index}.png")
    return path
