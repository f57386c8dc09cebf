"""Models by name: shapes, trained layers, preprocessing, and weights from files."""

import urllib.error
import urllib.request

import h5py
import numpy as np
import pytest
import tf_keras as keras
from models import eagerly

from estimator_train.app import models

SIZE = (32, 48)
# vgg16 stands for all backbones, because it is built in a tenth of the time that mobilenet_v2 takes.
NAMES = ("vgg16", "small_cnn", "fashion_mnist_cnn")


def build(name, num_classes=3, image_size=SIZE, weights="none", **options):
    return models.build_model(name, image_size=image_size, num_classes=num_classes, weights=weights, **options)


@pytest.fixture
def images():
    return np.random.default_rng(3).random((2, *SIZE, 3), np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_models_give_float32_probabilities_and_learn_from_one_hot_labels(name, images):
    model = eagerly(build(name))
    assert (model.input_shape, model.output_shape) == ((None, *SIZE, 3), (None, 3))
    probabilities = model.predict(images, verbose=0)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    history = model.fit(images, np.eye(3, dtype="float32")[:2], verbose=0).history
    assert history.keys() == {"loss", "accuracy"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_models_are_cloned_and_saved_with_their_preprocessing(name, images, tmp_path):
    model = build(name)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", compile=False)
    for copy in (clone, loaded):
        np.testing.assert_allclose(copy(images), model(images), atol=1e-6)


def test_vgg16_preprocesses_as_keras_applications_do(images):
    model = build("vgg16")
    base = model.get_layer("vgg16")
    features = keras.Model(model.input, model.get_layer("flatten").output)(images)
    expected = base(keras.applications.vgg16.preprocess_input(images * 255))
    np.testing.assert_allclose(features, np.reshape(expected, features.shape), rtol=1e-4, atol=1e-4)


def test_vgg16_trains_the_last_block_and_the_head():
    trained = [weight.name for weight in build("vgg16", weights=None, load_weights=False).trainable_weights]
    assert [name.split("/")[0] for name in trained[:-2:2]] == ["block5_conv1", "block5_conv2", "block5_conv3"]
    assert len(trained) == 8


@pytest.fixture(scope="module")
def mobilenet():
    """A mobilenet_v2 that is built as for pretrained weights, with random ones."""
    return eagerly(build("mobilenet_v2", weights=None, load_weights=False))


@pytest.mark.slow
def test_mobilenet_v2_preprocesses_as_keras_applications_do(mobilenet, images):
    model = mobilenet
    pooled = next(layer for layer in model.layers if isinstance(layer, keras.layers.GlobalAveragePooling2D))
    features = keras.Model(model.input, pooled.output)(images)
    base = next(layer for layer in model.layers if isinstance(layer, keras.Model))
    expected = base(keras.applications.mobilenet_v2.preprocess_input(images * 255), training=False)
    np.testing.assert_allclose(features, np.mean(expected, axis=(1, 2)), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_mobilenet_v2_trains_the_head_alone_and_keeps_its_statistics(mobilenet, images):
    assert len(mobilenet.trainable_weights) == 2
    before = [weight.numpy() for weight in mobilenet.non_trainable_weights]
    mobilenet.fit(images, np.eye(3, dtype="float32")[:2], verbose=0)
    for old, new in zip(before, mobilenet.non_trainable_weights, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5"])
def test_weights_come_from_a_file_of_either_format(tmp_path, images, suffix):
    path = str(tmp_path / f"small{suffix}")
    model = build("small_cnn")
    model.save_weights(path)
    np.testing.assert_array_equal(build("small_cnn", weights=path)(images), model(images))


@pytest.mark.slow
def test_weights_of_a_base_come_from_a_file(tmp_path):
    path = str(tmp_path / "base.weights.h5")
    base = next(layer for layer in build("vgg16").layers if isinstance(layer, keras.Model))
    base.save_weights(path)
    loaded = next(layer for layer in build("vgg16", weights=path).layers if isinstance(layer, keras.Model))
    for old, new in zip(base.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("vgg16", ".h5"),
        ("small_cnn", ".weights.h5"),
        ("fashion_mnist_cnn", ".h5"),
    ],
)
def test_weights_of_another_model_are_refused_in_one_line(tmp_path, name, suffix):
    path = str(tmp_path / f"other{suffix}")
    build("small_cnn", num_classes=5).save_weights(path)
    with pytest.raises(ValueError, match=f"{path} does not fit {name[:5]}") as caught:
        build(name, weights=path)
    assert "\n" not in str(caught.value)


def test_an_hdf5_file_without_weights_is_refused(tmp_path):
    path = str(tmp_path / "data.h5")
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2]
    with pytest.raises(ValueError, match=f"{path} does not fit small_cnn"):
        build("small_cnn", weights=path)


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        (
            lambda group, shape: group.create_dataset("kernel:0", (10**6, 10**6), "f4"),
            "claims .* has 0 bytes",
        ),
        (lambda group, shape: group.create_dataset("kernel:0", shape, external=[("/etc/passwd", 0, 10**5)]), "leads"),
        (lambda group, shape: group.__setitem__("kernel:0", h5py.ExternalLink("/etc/passwd", "/a")), "leads to"),
    ],
    ids=["huge", "external file", "external link"],
)
def test_weights_that_are_elsewhere_or_nowhere_are_refused(replace, message, tmp_path):
    path = str(tmp_path / "weights.h5")
    model = build("small_cnn")
    model.save_weights(path)
    (layer, *_) = (layer.name for layer in model.layers if layer.weights)
    with h5py.File(path, "a") as file:
        group = file[layer][layer]
        shape = group["kernel:0"].shape
        del group["kernel:0"]
        replace(group, shape)
    with pytest.raises(ValueError, match=f"{path} does not fit small_cnn: .*{message}"):
        models.load_file(model, path)


def test_what_is_no_weights_file_is_refused_before_the_model_is_built(tmp_path):
    text = tmp_path / "weights.h5"
    text.write_text("not found")
    for name in (None, "none", "imagenet"):
        models.check_weights(name)
    with pytest.raises(ValueError, match=f"{text} is not HDF5"):
        models.check_weights(text)
    with pytest.raises(FileNotFoundError, match=f"there is no weights file {tmp_path / 'missing'}"):
        models.check_weights(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="there is no weights file"):
        build("vgg16", weights=str(tmp_path))


def test_imagenet_weights_are_the_default_and_a_failed_download_has_a_hint(monkeypatch, tmp_path):
    def fail(*args, **options):
        raise urllib.error.URLError("offline")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("tf_keras.src.utils.data_utils.urlretrieve", fail)
    with pytest.raises(ConnectionError, match="VGG16 could not be downloaded; pass a file as weights "):
        build("vgg16", weights=None)


def test_other_names_and_sizes_are_refused():
    with pytest.raises(ValueError, match="no model 'vgg'; did you mean vgg19, vgg16?"):
        build("vgg")
    with pytest.raises(ValueError, match="no model 'bert'; pass small_cnn, fashion_mnist_cnn or a classifier of keras"):
        build("bert")
    with pytest.raises(ValueError, match="small_cnn has no ImageNet weights"):
        build("small_cnn", weights="imagenet")
    with pytest.raises(ValueError, match=r"at least 16 x 16 pixels, got image_size \(8, 32\)"):
        build("small_cnn", image_size=(8, 32))
