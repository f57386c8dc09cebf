"""Every classifier of tf_keras.applications and keras.applications: its SavedModel gives what predict gives."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TOLERANCE = 1e-5
_SMALLEST = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71}  # sides of the images; others take 32


def every() -> list[dict]:
    """Returns the classifiers of both Kerases."""
    return [
        {"generation": generation, "name": name}
        for generation in ("tf_keras", "keras")
        for name, _ in inspect.getmembers(importlib.import_module(f"{generation}.applications"), inspect.isfunction)
    ]


def smaller(case: dict) -> Iterator[dict]:
    """Yields nothing: a classifier has no simpler variant."""
    yield from ()


def check(case: dict, directory: Path) -> None:
    """Compares the outputs of an export with those of predict."""
    keras = importlib.import_module(case["generation"])
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    size = _SMALLEST.get(case["name"], 32)
    build = getattr(keras.applications, case["name"])
    check_export(build(weights=None, input_shape=(size, size, 3), classes=5, classifier_activation=None), directory)


def check_export(model: object, directory: Path) -> None:
    """Compares the outputs of the export of a model of images with those of predict, relative to the largest."""
    import tensorflow as tf

    import estimator_train as et

    shape = model.input_shape[1:]
    images = np.random.default_rng(7).uniform(0, 255, (3, *shape)).astype("float32")
    # With BatchNorm's initial statistics, the outputs of deep models hardly depend on the images.
    for layer in model.layers:
        if hasattr(layer, "momentum"):
            layer.momentum = 0.0
    model(images, training=True)
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(model, model_dir=str(directory / "run"))
    batches = estimator.predict(lambda: tf.data.Dataset.from_tensors(images), yield_single_examples=False)
    (predicted,) = next(iter(batches)).values()
    name = model.inputs[0].name
    receiver_fn = et.export.build_raw_serving_input_receiver_fn({name: tf.zeros([1, *shape])})
    folder = estimator.export_saved_model(str(directory / "export"), receiver_fn).decode()
    (served,) = tf.saved_model.load(folder).signatures["serving_default"](**{name: tf.constant(images)}).values()
    largest = np.abs(predicted).max()
    assert np.isfinite(largest) and np.ptp(predicted, axis=0).max() > 0.01 * largest, "the outputs tell nothing"
    np.testing.assert_allclose(served, predicted, rtol=0, atol=TOLERANCE * largest)
