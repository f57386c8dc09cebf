"""The recipe tells drawn cats from dogs on replicas, and prints metrics before and after training."""

import numpy as np
import pytest
import tf_keras as keras
from PIL import Image

from estimator_train.app.datasets import drawn_pets
from estimator_train.app.recipes import cats_vs_dogs

SIZE = (32, 40)


@pytest.fixture
def tiny(monkeypatch):
    """A base that is traced in no time, in place of MobileNetV2."""

    def application(build, image_size, weights):
        layers = [keras.layers.Conv2D(8, 3, strides=2, activation="relu"), keras.layers.BatchNormalization()]
        return keras.Sequential([keras.Input((*image_size, 3)), *layers])

    monkeypatch.setattr(cats_vs_dogs, "application", application)


@pytest.mark.slow
def test_it_trains_on_two_replicas_and_prints_how_well_before_and_after(tiny, tmp_path, mirrored, capsys):
    metrics = cats_vs_dogs.train(str(tmp_path), image_size=SIZE, batch_size=16, epochs=1, strategy=mirrored(2))
    assert metrics["global_step"] == 10  # 320 drawings by 16 on each replica
    *_, before, after = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert before[:2] == ["before", "0"]
    assert after == ["after", "10", f"{metrics['accuracy']:.4f}", f"{metrics['loss']:.4f}"]
    assert before[2:] != after[2:]


@pytest.mark.slow
def test_random_convolutions_are_trained():
    model = cats_vs_dogs.build_model(SIZE)
    base = model.get_layer(index=2)
    assert base.name.startswith("mobilenetv2") and model.output_shape == (None, 2)
    assert len(model.trainable_weights) == len(base.trainable_weights) + 2 > 100


def test_convolutions_with_weights_stay_as_they_are(tiny):
    model = cats_vs_dogs.build_model(SIZE, 3, "imagenet")
    assert model.output_shape == (None, 3)
    assert [weight.name for weight in model.trainable_weights] == ["probabilities/kernel:0", "probabilities/bias:0"]
    base = model.get_layer(index=2)
    before = base.get_weights()
    model.fit(np.random.default_rng(1).random((4, *SIZE, 3), np.float32), np.arange(4) % 3, verbose=0)
    for part, trained in zip(before, base.get_weights(), strict=True):
        np.testing.assert_array_equal(part, trained)


def test_a_folder_is_read(tmp_path):
    for name in drawn_pets.CLASS_NAMES:
        (tmp_path / name).mkdir()
        for index in range(5):
            Image.fromarray(drawn_pets.draw_pet(name, SIZE, np.random.default_rng(index))).save(
                tmp_path / name / f"{index}.png"
            )
    assert cats_vs_dogs.train_examples(str(tmp_path)) == 8


def test_drawings_repeat_and_evaluation_uses_none_of_the_training_ones():
    data = drawn_pets.DrawnPets(
        name="few", class_names=drawn_pets.CLASS_NAMES, default_model="", default_epochs=1, image_size=SIZE,
        train_examples=6, eval_examples=4,
    )  # fmt: skip
    ((images, labels),) = data.train_input_fn(image_size=SIZE, batch_size=8, num_epochs=1, seed=1)()
    ((again, _),) = data.train_input_fn(image_size=SIZE, batch_size=8, num_epochs=1, seed=1)()
    ((others, _),) = data.eval_input_fn(image_size=SIZE, batch_size=8)()
    assert images.shape == (6, *SIZE, 3) and others.shape == (4, *SIZE, 3)
    np.testing.assert_array_equal(labels.numpy().sum(axis=0), [3, 3])
    np.testing.assert_array_equal(images, again)
    assert min(np.abs(image - other).max() for image in images.numpy() for other in others.numpy()) > 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data_dir": "nowhere"}, "there is no folder nowhere"),
        ({"weights": "nowhere.h5"}, "there is no weights file nowhere.h5"),
        ({"image_size": (16, 16)}, "at least 32 x 32"),
    ],
)
def test_wrong_settings_are_refused_before_training(tmp_path, settings, message):
    with pytest.raises((ValueError, OSError), match=message):
        cats_vs_dogs.train(str(tmp_path / "run"), **settings)
    assert not (tmp_path / "run").exists()
