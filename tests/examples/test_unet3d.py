"""examples/unet3d.py draws or reads volumes, in the same order each time, and measures the overlap of each."""

import numpy as np
import pytest
import tensorflow as tf

from examples import unet3d


def batches(input_fn, number):
    return [tuple(part.numpy() for part in batch) for batch in input_fn().take(number)]


def test_masks_are_where_volumes_are_bright():
    volume, mask = unet3d.draw(32, np.random.default_rng(5))
    assert volume.shape == mask.shape == (32, 32, 32, 1) and set(np.unique(mask)) == {0, 1}
    assert volume[mask == 1].mean() == pytest.approx(1, abs=0.1)
    assert volume[mask == 0].mean() == pytest.approx(0, abs=0.1)


def test_volumes_repeat_and_evaluation_uses_none_of_the_training_ones():
    drawn = {
        (seed, shuffle): batches(unet3d.volumes([], 8, seed=seed, shuffle=shuffle, batch_size=2), 1)[0][0]
        for seed in (1, 2)
        for shuffle in (True, False)
    }
    again = batches(unet3d.volumes([], 8, seed=1, shuffle=True, batch_size=2), 1)[0][0]
    np.testing.assert_array_equal(again, drawn[1, True])
    assert len({volumes.tobytes() for volumes in drawn.values()}) == 4
    assert (
        sum(len(volumes) for volumes, _ in batches(unet3d.volumes([], 8, seed=1, shuffle=False, batch_size=3), 9)) == 16
    )


def test_a_resumed_training_reads_the_rest_of_the_files_of_its_epoch(tmp_path):
    for index in range(4):
        mask = np.zeros((8, 8, 8), bool)
        np.savez(tmp_path / f"{index}.npz", volume=np.full((8, 8, 8), index), mask=mask | (index > 1))
    paths = sorted(tmp_path.glob("*.npz"))
    whole, rest = (
        batches(input_fn, number)
        for input_fn, number in (
            (unet3d.volumes(paths, 8, seed=3, shuffle=True, batch_size=1), 8),
            (unet3d.volumes(paths, 8, seed=3, shuffle=True, batch_size=1).starting_at(5, seed=0), 3),
        )
    )
    order = [volume.flat[0] for volume, _ in whole]
    assert sorted(order[:4]) == sorted(order[4:]) == [0, 1, 2, 3] and order[:4] != order[4:]
    assert [volume.flat[0] for volume, _ in rest] == order[5:]
    assert all((mask == (volume.flat[0] > 1)).all() for volume, mask in whole)


def test_dice_is_of_each_example_and_counts_every_voxel():
    truth = tf.reshape(tf.constant([[1.0, 1, 0, 0], [0] * 4]), [2, 4, 1, 1, 1])
    prediction = tf.reshape(tf.constant([[0.9, 0.2, 0.6, 0.1], [0] * 4]), [2, 4, 1, 1, 1])
    np.testing.assert_allclose(unet3d.dice_coefficient(truth, prediction), [(2 * 1 + 1) / (2 + 2 + 1), 1], rtol=1e-6)
    loss = 1 - (2 * 1.1 + 1) / (2 + 1.8 + 1)
    np.testing.assert_allclose(unet3d.dice_loss(truth, prediction), [loss, 0], atol=1e-6)


@pytest.mark.parametrize("side", [0, 12])
def test_a_volume_that_cannot_be_halved_is_refused(side):
    with pytest.raises(SystemExit, match=f"--volume {side}: the side must be a multiple of 8 voxels"):
        unet3d.build_model(side, 1)
