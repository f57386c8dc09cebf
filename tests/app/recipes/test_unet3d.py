"""The 3-D U-Net recipe trains on replicas and split over devices, and draws the same data each time."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from models import eagerly

from estimator_train.app.models.dice import dice_coefficient, dice_loss
from estimator_train.app.recipes import NAMES, named, unet3d

SMALL = {"volume": 8, "filters": 2, "batch_size": 2}


@pytest.fixture(autouse=True)
def shallow(monkeypatch):
    monkeypatch.setattr(unet3d, "_POOLINGS", 1)
    monkeypatch.setattr(unet3d, "EVAL_EXAMPLES", 4)


@pytest.mark.slow
def test_it_trains_on_two_replicas(tmp_path, mirrored):
    first, last = (unet3d.train(str(tmp_path), strategy=mirrored(2), max_steps=steps, **SMALL) for steps in (1, 40))
    assert (first["global_step"], last["global_step"]) == (1, 40)
    assert last["loss"] < first["loss"] - 0.05 and last["dice_coefficient"] > 2 * first["dice_coefficient"]


def test_volumes_repeat_and_evaluation_uses_none_of_the_training_ones():
    def first(data):
        return next(iter(data))[0].numpy()

    volumes = first(unet3d.training_volumes(8, 2, seed=1))
    assert volumes.shape == (2, 8, 8, 8, 1)
    np.testing.assert_array_equal(volumes, first(unet3d.training_volumes(8, 2, seed=1)))
    assert np.abs(volumes - first(unet3d.training_volumes(8, 2, seed=2))).max() > 1
    assert np.abs(volumes - first(unet3d.evaluation_volumes(8, 2, seed=1))).max() > 1
    assert np.abs(volumes[0] - volumes[1]).max() > 1
    assert sum(len(mask) for _, mask in unet3d.evaluation_volumes(8, 3)) == unet3d.EVAL_EXAMPLES


def test_masks_are_where_volumes_are_bright():
    volume, mask = unet3d.draw(32, [0, 5])
    assert set(np.unique(mask)) == {0, 1}
    assert float(tf.reduce_mean(volume[mask == 1])) == pytest.approx(1, abs=0.1)
    assert float(tf.reduce_mean(volume[mask == 0])) == pytest.approx(0, abs=0.1)


def test_dice_is_of_each_example_and_counts_every_voxel():
    truth = tf.constant([[[1.0], [1.0], [0.0], [0.0]], [[0.0]] * 4])
    prediction = tf.constant([[[0.9], [0.2], [0.6], [0.1]], [[0.0]] * 4])
    smoothed = (2 * 1 + 1) / (2 + 2 + 1)
    np.testing.assert_allclose(dice_coefficient(truth, prediction), [smoothed, 1], rtol=1e-6)
    np.testing.assert_allclose(dice_loss(truth, prediction), [1 - (2 * 1.1 + 1) / (2 + 1.8 + 1), 0], rtol=1e-6)


def test_the_model_is_saved_with_its_loss_and_metric(tmp_path):
    model = unet3d.build_model(8, 2)
    model.save(tmp_path / "unet3d.keras")
    loaded = keras.models.load_model(tmp_path / "unet3d.keras")
    assert loaded.loss is dice_loss
    volumes = unet3d.evaluation_volumes(8, 2).take(1)
    measured, expected = (eagerly(each).evaluate(volumes, verbose=0, return_dict=True) for each in (loaded, model))
    assert measured == pytest.approx(expected)
    assert measured.keys() == {"loss", "dice_coefficient"}


@pytest.mark.parametrize("volume", [0, 7])
def test_a_volume_that_cannot_be_halved_is_refused(volume):
    with pytest.raises(ValueError, match=f"must be a multiple of 2 voxels, got {volume}"):
        unet3d.build_model(volume)


def test_a_strategy_and_devices_to_split_over_exclude_each_other(tmp_path, mirrored):
    with pytest.raises(ValueError, match="give strategy or split_over, not both"):
        unet3d.train(str(tmp_path), strategy=mirrored(2), split_over=["CPU:0", "CPU:1"])


def test_recipes_are_found_by_name():
    assert "unet3d" in NAMES and named("unet3d") is unet3d
    with pytest.raises(ValueError, match="there is no recipe 'unet4d'; pass one of .*unet3d"):
        named("unet4d")
