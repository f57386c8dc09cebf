import numpy as np
import pytest
import tf_keras as keras

from estimator_train.app import datasets, models
from estimator_train.app.datasets import fashion_mnist


def images(number):
    """So many images and labels of ten classes; every pixel is 20 times the class."""
    y = (np.arange(number) % 10).astype("uint8")
    return np.ones((number, 28, 28), np.uint8) * (20 * y).reshape(-1, 1, 1), y


@pytest.fixture
def downloads(monkeypatch):
    """Counts the loads by Keras' loader, which gives 40 and 20 images."""
    calls = []

    def load_data():
        calls.append(1)
        return images(40), images(20)

    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", load_data)
    fashion_mnist._load.cache_clear()
    yield calls
    fashion_mnist._load.cache_clear()


def test_fashion_mnist_has_the_blogs_settings_and_loads_when_read(downloads):
    data = datasets.open_dataset("fashion_mnist")
    assert (data.default_model, data.default_batch_size, data.default_epochs) == ("fashion_mnist_cnn", 512, 5)
    assert (data.train_examples, data.eval_examples, len(data.class_names)) == (60_000, 10_000, 10)
    assert not downloads
    images, labels = next(iter(data.eval_input_fn(image_size=(28, 28), batch_size=20)()))
    next(iter(data.train_input_fn(image_size=(28, 28), batch_size=20, num_epochs=None, seed=1)()))
    assert downloads == [1]
    np.testing.assert_allclose(images[3] * 255, np.full((28, 28, 3), 60), atol=1e-3)

    model = models.build_model("fashion_mnist_cnn", image_size=data.image_size, num_classes=10)
    assert [layer.filters for layer in model.layers if hasattr(layer, "filters")] == [32, 64]
    assert model.evaluate(images, labels, verbose=0)[0] > 0


def test_fashion_mnist_can_be_limited(downloads):
    data = datasets.open_dataset("fashion_mnist", limit=10)
    assert (data.train_examples, data.eval_examples) == (10, 10)
    ((_, labels),) = data.eval_input_fn(image_size=(28, 28), batch_size=20)()
    np.testing.assert_array_equal(labels.numpy().sum(0), np.ones(10))


def test_fashion_mnist_holds_out_a_share(downloads):
    data = datasets.open_dataset("fashion_mnist", limit=15).with_validation(0.5)
    assert (data.train_examples, data.validation_examples, data.to_choose_on().eval_examples) == (15, 15, 15)
    ((_, labels),) = data.to_choose_on().eval_input_fn(image_size=(28, 28), batch_size=20)()
    assert labels.shape == (15, 10) and labels.numpy().sum(0).min() == 1
    with pytest.raises(ValueError, match="10 images are too few to hold out 0.1"):
        fashion_mnist.LoadedImages(number=10, load=images).split(0.1)


def test_fashion_mnist_holds_out_the_same_images_under_any_limit(downloads, monkeypatch):
    def pixels(data):
        batches = data.eval_input_fn(image_size=(28, 28), batch_size=40)()
        return {round(255 * float(image[0, 0, 0])) for each, _ in batches for image in each}

    numbered = np.arange(40, dtype="uint8").reshape(-1, 1, 1) * np.ones((1, 28, 28), "uint8")
    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", lambda: ((numbered, images(40)[1]), images(20)))
    few, all_ = (
        pixels(datasets.open_dataset("fashion_mnist", limit=limit).with_validation(0.5).to_choose_on())
        for limit in (10, 60_000)
    )
    assert few < all_ and (len(few), len(all_)) == (10, 20)


def test_fashion_mnist_offline_is_one_line(monkeypatch):
    def load_data():
        raise Exception("URL fetch failure on https://storage.googleapis.com/x: None --\n[Errno -2] unknown")

    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", load_data)
    fashion_mnist._load.cache_clear()
    with pytest.raises(ConnectionError, match="^fashion_mnist could not be downloaded; connect once, or put .*$"):
        datasets.download("fashion_mnist")
    with pytest.raises(ValueError, match="leave out data_dir"):
        datasets.open_dataset("fashion_mnist", "folder")
