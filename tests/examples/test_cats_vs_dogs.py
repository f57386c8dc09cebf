"""examples/cats_vs_dogs.py trains the whole network, or the last layer on given weights, and draws its faces."""

import numpy as np
import pytest
import tf_keras as keras
from PIL import Image

from examples import cats_vs_dogs


def test_faces_repeat_and_those_to_test_on_are_others(monkeypatch, tmp_path):
    monkeypatch.setattr(cats_vs_dogs, "DRAWN", {"train": 2, "test": 1})
    for folder in ("once", "again"):
        cats_vs_dogs.draw_faces(tmp_path / folder)
    files = [cats_vs_dogs.list_files(tmp_path / "once", part) for part in ("train", "test")]
    assert [len(each) for each in files] == [4, 2]
    for path in files[0]:
        assert np.array_equal(Image.open(path), Image.open(path.replace("once", "again")))
        assert not any(np.array_equal(Image.open(path), Image.open(other)) for other in files[1])


@pytest.mark.slow
def test_random_convolutions_are_trained_and_given_ones_stay(tmp_path):
    whole = cats_vs_dogs.build_model(32, 3)
    (base,) = (layer for layer in whole.layers if isinstance(layer, keras.Model))
    base.save_weights(tmp_path / "given.h5")
    head = cats_vs_dogs.build_model(32, 3, str(tmp_path / "given.h5"))
    assert whole.output_shape == head.output_shape == (None, 3)
    assert len(whole.trainable_weights) > 100
    assert [weight.name for weight in head.trainable_weights] == ["probabilities/kernel:0", "probabilities/bias:0"]
