"""examples/cyclegan.py trains two optimizers over replicas, and goes on with the pairs that it has not seen."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from examples import cyclegan


@pytest.fixture
def tiny(monkeypatch):
    """Networks that are traced in a second."""

    def generator(side, filters):
        image = keras.Input((side, side, 3))
        return keras.Model(image, keras.layers.Conv2D(3, 3, padding="same", activation="tanh")(image))

    def discriminator(side, filters):
        image = keras.Input((side, side, 3))
        return keras.Model(image, keras.layers.Conv2D(1, 4, strides=4)(image))

    monkeypatch.setattr(cyclegan, "build_generator", generator)
    monkeypatch.setattr(cyclegan, "build_discriminator", discriminator)


def trained(model_dir, strategy, batch_size):
    images = cyclegan.draw_images(16)
    keras.utils.set_random_seed(0)
    config = et.RunConfig(str(model_dir), train_distribute=strategy, eval_distribute=strategy)
    estimator = et.model_to_estimator(lambda: cyclegan.build_model(16, 1), config=config)
    estimator.train(cyclegan.pairs(images["trainA"], images["trainB"], batch_size, seed=1), max_steps=3)
    return estimator, images


@pytest.mark.slow
def test_two_replicas_give_the_losses_of_one_and_keep_both_optimizers(tiny, tmp_path, mirrored):
    metrics = []
    for replicas, batch_size in ((None, 4), (2, 2)):
        estimator, images = trained(tmp_path / str(replicas), mirrored(replicas), batch_size)
        test_input_fn = et.input_fns.arrays(images["testA"][:3], images["testB"][:3], batch_size=batch_size)
        metrics.append(estimator.evaluate(test_input_fn))
        reader = tf.train.load_checkpoint(estimator.latest_checkpoint())
        for name in ("generators", "discriminators"):
            assert reader.get_tensor(f"optimizer/{name}/_iterations/.ATTRIBUTES/VARIABLE_VALUE") == 3
    assert metrics[0].keys() == {"loss", *cyclegan.LOSSES, "global_step"}
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-4, abs=1e-5)
    parts = sum(value for name, value in metrics[0].items() if name in cyclegan.LOSSES)
    assert metrics[0]["loss"] == pytest.approx(parts, rel=1e-5)


def test_every_epoch_has_another_order_and_a_resumed_one_its_rest():
    a, b = (np.arange(number, dtype=np.float32).reshape(-1, 1, 1, 1) * [[[1, 2]]] for number in (4, 6))
    input_fn = cyclegan.pairs(a.astype(np.float32), b.astype(np.float32), 1, seed=5)

    def of(input_fn, number):
        return [(float(x[0, 0, 0, 0]), float(y[0, 0, 0, 0])) for x, y in input_fn().take(number)]

    whole = of(input_fn, 8)
    assert sorted(x for x, _ in whole[:4]) == [0, 1, 2, 3] and len({y for _, y in whole[:4]}) == 4
    assert whole[:4] != whole[4:] and of(input_fn.starting_at(5, seed=0), 3) == whole[5:]


@pytest.mark.slow
def test_networks_scale_with_the_images():
    def blocks(side):
        return sum(isinstance(layer, keras.layers.Add) for layer in cyclegan.build_generator(side, 1).layers)

    assert [blocks(side) for side in (16, 64, 128, 256)] == [1, 3, 6, 9]
    # Four times as many patches in twice the size, but for three halvings instead of two.
    assert [cyclegan.build_discriminator(side, 1).output_shape[1:] for side in (64, 128)] == [(16, 16, 1)] * 2


def test_the_pictures_of_an_evaluation_have_a_row_for_each_image(tmp_path):
    class Estimator:
        def predict(self, input_fn, checkpoint_path):
            return [{name: image[0] for name in ("x", "generated", "cycled")} for image in input_fn()]

    images = np.stack([np.full((4, 4, 3), shade, np.float32) for shade in (-1, 1)])
    path = cyclegan.Grid(images).export(Estimator(), str(tmp_path / "grids"), "ckpt", {"global_step": 7}, True)
    assert path == str(tmp_path / "grids" / "000007.png")
    pixels = np.asarray(cyclegan.Image.open(path))
    assert pixels.shape == (8, 12, 3) and pixels[:4].max() == 0 and pixels[4:].min() == 255


@pytest.mark.parametrize("side", [12, 66])
def test_a_size_that_the_generators_cannot_halve_twice_is_refused(side):
    with pytest.raises(SystemExit, match=f"--image-size {side}: it must be a multiple of 4, and at least 16"):
        cyclegan.build_model(side, 1)
