"""An exported model and a Predictor give what predict gives, to the bit."""

import os

import numpy as np
import pytest
import tensorflow as tf
from kinds import FEATURES, examples
from slow_cases import slow

import estimator_train as et


def features():
    return examples(48, epochs=1).map(lambda features, _: features)


@pytest.mark.parametrize(
    ("kind", "replicas"),
    [("tf_keras", None), slow("keras3", None), ("model_fn", None), slow("canned", None), slow("tf_keras", 2)],
)
def test_an_export_and_a_predictor_give_what_predict_gives(kind, replicas, unbroken, tmp_path):
    estimator = unbroken(kind, replicas)
    (batch,) = features()
    predicted = np.stack([example["probabilities"] for example in estimator.predict(features)])

    receiver_fn = et.export.build_raw_serving_input_receiver_fn({"x_input": tf.zeros([1, FEATURES])})
    (tmp_path / "words.txt").write_text("a\nb\n")
    extra = {"lists/words.txt": str(tmp_path / "words.txt")}
    folder = estimator.export_saved_model(tmp_path / "export", receiver_fn, assets_extra=extra)
    assert isinstance(folder, bytes)
    (name,) = os.listdir(tmp_path / "export")
    assert name.isdigit() and folder.decode() == str(tmp_path / "export" / name)
    assert (tmp_path / "export" / name / "assets.extra/lists/words.txt").read_text() == "a\nb\n"
    signatures = tf.saved_model.load(folder.decode()).signatures
    served = signatures["predict" if kind == "canned" else "serving_default"](**batch)
    np.testing.assert_array_equal(served["probabilities"], predicted)

    with estimator.predictor() as predict:
        np.testing.assert_array_equal(predict(batch)["probabilities"], predicted)
