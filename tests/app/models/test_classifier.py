"""Classifiers on the backbones of keras.applications: their names, preprocessing, freezing and weights."""

import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras.tf_keras.frozen_layers import split
from estimator_train.app import models
from estimator_train.app.models.backbones import CLASSES, default_freeze, most_features
from estimator_train.app.models.classifier import freeze_backbone, preprocessed
from estimator_train.app.models.defaults import least_size

# One of each module of keras.applications.
SMALL_ONES = (
    *("vgg16", "vgg19", "mobilenet", "mobilenet_v2", "mobilenet_v3_large", "nasnet_mobile", "xception", "resnet50"),
    *("resnet_rs50", "inception_v3", "inception_resnet_v2", "densenet121", "efficientnet_b0", "efficientnet_v2_b0"),
    *("convnext_tiny", "regnet_x002", "resnet50_v2"),
)

# An old one, one with another smallest size, and one with layers of its own; one that begins with a Normalization is
# compared with Keras' below. `python -m tests.app.models.every_classifier` builds all.
BUILT = ("mobilenet", "xception", "convnext_tiny")


def backbone(model):
    return next(layer for layer in model.layers if isinstance(layer, keras.Model))


def test_the_table_has_every_classifier_of_keras_applications():
    there = {name for name, value in vars(keras.applications).items() if callable(value)}
    assert set(CLASSES.values()) == there
    assert len(CLASSES) == len(there)
    names = {"vgg16", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "efficientnet_v2_b0", "resnet50_v2"}
    names |= {"resnet_rs50", "convnext_xlarge", "nasnet_mobile", "inception_resnet_v2", "regnet_x002", "densenet121"}
    assert names <= set(models.NAMES)


@pytest.mark.parametrize("name", CLASSES)
def test_preprocessing_is_that_of_preprocess_input(name):
    build = getattr(keras.applications, CLASSES[name])
    module = getattr(keras.applications, build.__module__.rpartition(".")[2])
    pixels = np.random.default_rng(3).random((2, 4, 6, 3), np.float32)
    images = keras.Input((4, 6, 3))
    ours = keras.Model(images, preprocessed(images, build))(pixels)
    np.testing.assert_allclose(ours, module.preprocess_input(pixels * np.float32(255)), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_a_classifier_of_smallest_size_trains_all_of_random_weights(name):
    check_classifier(name)


@pytest.mark.parametrize("name", SMALL_ONES)
def test_keras_refuses_the_smaller_images_that_are_refused_without_it(name):
    side = least_size(name)
    with pytest.raises(ValueError, match=f"^{name} takes images of at least {side} x {side} pixels") as caught:
        models.check_options(name, image_size=(side, side - 1))
    assert str(caught.value).endswith(f"got image_size ({side}, {side - 1})")
    with pytest.raises(ValueError, match=f"at least {side} ?x ?{side}"):
        getattr(keras.applications, CLASSES[name])(include_top=False, weights=None, input_shape=(side, side - 1, 3))


def check_classifier(name):
    side = least_size(name)
    model = models.build_model(name, image_size=(side, side), num_classes=3, weights="none")
    assert (model.input_shape, model.output_shape) == ((None, side, side, 3), (None, 3))
    assert all(layer.trainable for layer in backbone(model).layers)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BUILT, "vgg16"])
def test_frozen_layers_give_at_most_as_many_numbers_as_the_plan_says(name):
    check_features(name)


def check_features(name):
    size = (max(64, least_size(name)),) * 2
    freeze = default_freeze(name, None)
    model = models.build_model(name, image_size=size, num_classes=3, freeze=freeze, load_weights=False)
    frozen, _ = split(model, tf.distribute.get_strategy())
    features = tf.nest.flatten(frozen(tf.zeros((1, *size, 3)), training=True))
    assert 0 < sum(each.shape.num_elements() for each in features) <= most_features(name, freeze, size)


@pytest.fixture(scope="module")
def mobilenet():
    """A mobilenet_v2 that is built as for pretrained weights, with random ones."""
    return models.build_model("mobilenet_v2", image_size=(32, 32), num_classes=3, load_weights=False)


@pytest.mark.slow
def test_layers_are_frozen_by_all_none_number_or_name_of_the_last(mobilenet):
    layers = backbone(mobilenet).layers
    index = [layer.name for layer in layers].index("block_12_add")

    def frozen(freeze):
        freeze_backbone(mobilenet, freeze)
        states = [layer.trainable for layer in layers]
        assert states == sorted(states)  # the first are frozen
        return states.count(False), float(mobilenet.optimizer.learning_rate)

    every = len(layers)
    assert [layer.trainable for layer in layers] == [False] * every
    assert frozen("none") == (0, pytest.approx(1e-4))
    assert frozen("all") == (every, pytest.approx(3e-3))
    assert frozen("block_12_add") == (index + 1, pytest.approx(1e-4))
    assert frozen(100) == frozen("100") == (100, pytest.approx(1e-4))
    assert frozen(every) == (every, pytest.approx(3e-3))
    with pytest.raises(ValueError, match=f"freeze={every + 1}: mobilenetv2_1.00_32 has {every} layers"):
        frozen(every + 1)
    with pytest.raises(ValueError, match=r"freeze=block_12_ad: .* no such layer; pass all, none, .* block_12_add"):
        frozen("block_12_ad")


@pytest.mark.slow
def test_only_pretrained_batch_statistics_are_kept_when_unfrozen(mobilenet):
    images = np.random.default_rng(3).random((4, 32, 32, 3), np.float32)
    freeze_backbone(mobilenet, "none")
    random = models.build_model("mobilenet_v2", image_size=(32, 32), num_classes=3, weights="none")
    for model, are_kept in ((mobilenet, True), (random, False)):
        features = keras.Model(model.input, backbone(model).get_output_at(-1))
        assert np.array_equal(features(images, training=True), features(images, training=False)) == are_kept


def test_what_cannot_be_frozen_is_refused():
    sizes = {"image_size": (32, 32), "num_classes": 3}
    with pytest.raises(ValueError, match=r"small_cnn has no backbone of keras\.applications to freeze; leave out"):
        models.build_model("small_cnn", freeze="none", **sizes)
    with pytest.raises(ValueError, match='freeze=3 would keep the random weights that weights="none" gives vgg16'):
        models.build_model("vgg16", freeze=3, weights="none", **sizes)


@pytest.mark.slow
def test_efficientnet_computes_as_keras_makes_it_for_imagenet(monkeypatch, tmp_path):
    def build(weights, load_weights=True):
        options = {"image_size": (32, 32), "num_classes": 3, "load_weights": load_weights}
        return backbone(models.build_model("efficientnet_b0", weights=weights, **options))

    module = sys.modules[keras.applications.EfficientNetB0.__module__]
    monkeypatch.setattr(module, "DEFAULT_BLOCKS_ARGS", module.DEFAULT_BLOCKS_ARGS[:2])  # all 7 take 20 s
    # Its weights as Keras has them to download: the variances of its Normalization are standard deviations.
    path = str(tmp_path / "efficientnet.h5")
    random = keras.applications.EfficientNetB0(include_top=False, weights=None, input_shape=(32, 32, 3))
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    random.get_layer("normalization").set_weights([mean, deviation, np.array(0)])
    random.save_weights(path)
    monkeypatch.setattr("tf_keras.src.utils.data_utils.get_file", lambda *args, **options: path)
    by_keras = keras.applications.EfficientNetB0(include_top=False, weights="imagenet", input_shape=(32, 32, 3))
    images = 255 * np.random.default_rng(3).random((2, 32, 32, 3), np.float32)
    expected = by_keras(images)
    for weights in ("imagenet", path):
        np.testing.assert_allclose(build(weights)(images), expected, rtol=1e-4, atol=1e-5)
    # A checkpoint is restored to a model that has not loaded them, and must have the same layers.
    names = [type(layer) for layer in build("imagenet", load_weights=False).layers]
    assert names == [type(layer) for layer in random.layers]
