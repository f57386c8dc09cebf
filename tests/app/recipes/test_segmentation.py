"""The segmentation recipe trains on replicas, from worker processes, and evaluates the same on any number of them."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train import input_fns
from estimator_train.app.datasets import drawn_tables, masked_images
from estimator_train.app.models.dice import bce_dice_loss, dice_loss
from estimator_train.app.recipes import segmentation
from estimator_train.keras_estimator import model_to_estimator
from estimator_train.run_config import RunConfig

SIZE = (32, 48)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn") / "tables"
    drawn_tables.draw_pages(folder, 10)
    return folder


@pytest.fixture(autouse=True)
def shallow(monkeypatch):
    monkeypatch.setattr(segmentation, "_POOLINGS", 1)


def samples_of(folder):
    return masked_images.split(masked_images.list_samples(folder, segmentation.MASKS))


@pytest.mark.slow
def test_two_replicas_train_until_the_loss_stops_falling_and_keep_the_best(tables, tmp_path, mirrored):
    settings = {"image_size": SIZE, "batch_size": 2, "epochs": 8, "filters": 2, "workers": 2}
    metrics = segmentation.train(
        str(tmp_path), data_dir=tables, learning_rate=1e3, patience=1, strategy=mirrored(2), **settings
    )
    step = metrics["global_step"]
    assert step % 2 == 0 and 2 < step < 16  # an epoch is 8 images, a step 2 on each of 2 replicas
    assert 0 <= metrics["dice_coefficient"] <= 1 and 0 < metrics["binary_accuracy"] <= 1
    best = tf.train.latest_checkpoint(tmp_path / "export" / "best_checkpoint")
    assert int(best.rpartition("-")[2]) == step - 2


@pytest.mark.slow
def test_the_validation_loss_is_that_of_one_replica_on_two(tables, tmp_path, mirrored):
    model = segmentation.build_model(SIZE, filters=2)
    input_fn = segmentation.evaluation_images(samples_of(tables)[1], SIZE, batch_size=2)

    def metrics(replicas):
        config = RunConfig(str(tmp_path / str(replicas)), eval_distribute=mirrored(replicas))
        return model_to_estimator(model, config=config).evaluate(input_fn)

    one, two = metrics(None), metrics(2)
    assert (one.pop("global_step"), two.pop("global_step")) == (0, 0)
    assert two == pytest.approx(one, rel=1e-5)
    images, masks = next(iter(segmentation.evaluation_images(samples_of(tables)[1], SIZE, batch_size=3)()))
    assert one["loss"] == pytest.approx(float(tf.reduce_mean(bce_dice_loss(masks, model(images)))), rel=1e-4)


@pytest.mark.slow
def test_training_images_are_the_same_whatever_the_number_of_workers(tables):
    def images(workers):
        input_fn = segmentation.training_images(samples_of(tables)[0], SIZE, 5, seed=3, workers=workers)
        return np.concatenate([images for images, _ in input_fn().take(4)])

    alone = images(0)
    assert alone.shape == (20, *SIZE, 3)
    np.testing.assert_array_equal(images(2), alone)


def test_files_that_cannot_be_read_are_counted_and_not_trained_on(tables, tmp_path, warnings):
    folder = shutil.copytree(tables, tmp_path / "tables")
    page = folder / "images" / "page-0003.jpeg"
    page.write_bytes(page.read_bytes()[:2000])
    input_fn = segmentation.training_images(samples_of(folder)[0], SIZE, 7)
    assert [len(images) for images, _ in input_fn().take(2)] == [7, 7]
    assert len(input_fn.skipped) == 1 and f"1 skipped, the last of them {page}: image file is truncated" in warnings[-1]


@pytest.mark.slow
def test_two_replicas_share_a_generator_and_see_each_example_once_an_epoch(tmp_path, mirrored):
    """Whatever shapes and auto-shard policy an input_fn leaves open, and however vague a metric's name is."""

    def examples():
        for label in range(12):
            yield np.full((4, 4, 1), label, np.float32), np.full((4, 4, 2), label % 2, np.float32)

    signature = tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.float32)
    input_fn = input_fns.generator(examples, batch_size=2, output_signature=signature)
    model = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Conv2D(2, 1, kernel_initializer="zeros")])
    model.add(keras.layers.Activation("sigmoid"))
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["acc"])
    config = RunConfig(str(tmp_path), train_distribute=mirrored(2), eval_distribute=mirrored(2))
    estimator = model_to_estimator(model, config=config).train(input_fn)
    metrics = estimator.evaluate(input_fn)
    assert metrics["global_step"] == 3 and metrics["loss"] == pytest.approx(0.25) and 0 <= metrics["acc"] <= 1


def test_the_entropy_of_the_loss_weighs_the_pixels_of_masks():
    truth, prediction = tf.constant([[[1.0], [0.0]]]), tf.constant([[[0.5], [0.5]]])
    entropy = bce_dice_loss(truth, prediction, positive_weight=3.0) - dice_loss(truth, prediction)
    np.testing.assert_allclose(entropy, [(3 + 1) / 2 * np.log(2)], rtol=1e-5)


def test_the_model_is_saved_with_its_loss(tmp_path):
    segmentation.build_model(SIZE, filters=2).save(tmp_path / "unet.keras")
    assert keras.models.load_model(tmp_path / "unet.keras").loss is bce_dice_loss


def test_by_default_it_takes_512_pixel_colour_images_and_gives_two_masks():
    model = segmentation.build_model()
    assert (model.input_shape, model.output_shape) == ((None, 512, 512, 3), (None, 512, 512, 2))


def test_bad_settings_are_refused_before_anything_is_trained(tables, tmp_path):
    with pytest.raises(ValueError, match=r"multiples of 2 pixels, got \(32, 33\)"):
        segmentation.train(str(tmp_path), data_dir=tables, image_size=(32, 33))
    with pytest.raises(FileNotFoundError, match="there are no images"):
        segmentation.train(str(tmp_path), data_dir=tmp_path)
