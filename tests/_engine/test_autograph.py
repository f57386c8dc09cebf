import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from tensorflow.python.autograph.impl import api

import estimator_train as et
from estimator_train.app.datasets.pipeline import ExampleBatches
from estimator_train.input_fns import arrays, augmented, image_files

PIXELS, LABELS = np.zeros((6, 4, 4, 3), np.float32), np.eye(2, dtype=np.float32)[[0, 1] * 3]


@pytest.fixture
def converted(monkeypatch):
    """A list of the functions that AutoGraph converts, or takes from its cache."""
    names, convert = [], api._convert_actual

    def record(entity, context):
        names.append(f"{entity.__module__}.{entity.__qualname__}")
        return convert(entity, context)

    monkeypatch.setattr(api, "_convert_actual", record)
    return names


SLOW = ["one epoch", "shuffled", "augmented", "rows", "examples"]


@pytest.fixture(params=["skips", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)])
def input_fn(request, tmp_path):
    for name in ("cat/a.png", "cat/b.png", "dog/a.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(tf.io.encode_png(np.zeros((4, 4, 3), np.uint8)).numpy())
    files = {"file_pattern": str(tmp_path / "*/*.png"), "labels": ["cat", "dog"], "image_size": (4, 4), "batch_size": 2}
    if request.param == "rows":
        return arrays(PIXELS, LABELS, batch_size=2)
    if request.param == "examples":
        rows = tf.data.Dataset.from_tensor_slices((PIXELS, LABELS))
        return ExampleBatches(lambda: rows, lambda image, label: (image / 2, label), batch_size=2, shuffle=True)
    if request.param == "augmented":
        return augmented(image_files(**files), "medium")
    settings = {
        "one epoch": {"num_epochs": 1},
        "shuffled": {"shuffle": True},
        "skips": {"on_error": "skip"},
    }
    return image_files(**files, **settings[request.param])


def test_a_training_begins_without_converting_the_librarys_functions(input_fn, converted):
    model = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten(), keras.layers.Dense(2, "softmax")])
    model.compile("sgd", "categorical_crossentropy")
    et.model_to_estimator(model).train(input_fn, steps=1)
    assert [name for name in converted if name.startswith("estimator_train")] == []
