"""SavedModels as TFLite and ONNX: names of inputs and outputs stay, and so do the values."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train.app.conversion import run_onnx, run_tflite, to_onnx, to_tflite


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A SavedModel with two inputs and two outputs, inputs for it, and what the Estimator predicts for them."""
    keras.utils.set_random_seed(7)
    image, number = keras.Input((8, 8, 3), name="image"), keras.Input((2,), name="number")
    features = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(32, 3, activation="relu")(image))
    features = keras.layers.Concatenate()([features, number])
    outputs = {"class": keras.layers.Dense(300, "softmax", name="class")(features), "sum": number + 1}
    model = keras.Model([image, number], outputs)
    model.compile("sgd", {"class": "mse", "sum": "mse"})
    folder = tmp_path_factory.mktemp("conversion")
    estimator = et.model_to_estimator(model, model_dir=folder / "run")
    rng = np.random.default_rng(3)
    inputs = {"image": rng.random((5, 8, 8, 3), "float32"), "number": rng.random((5, 2), "float32")}
    (expected,) = estimator.predict(lambda: tf.data.Dataset.from_tensors(inputs), yield_single_examples=False)
    receiver_fn = et.export.build_raw_serving_input_receiver_fn(
        {name: tf.TensorSpec([None, *value.shape[1:]]) for name, value in inputs.items()}
    )
    return estimator.export_saved_model(folder / "exported", receiver_fn), inputs, expected


@pytest.mark.slow
def test_tflite_predicts_as_the_estimator_for_any_batch(exported):
    saved_model, inputs, expected = exported
    outputs = run_tflite(to_tflite(saved_model), inputs)
    assert outputs.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-4)


@pytest.mark.slow
def test_8_bit_weights_make_a_smaller_file_that_predicts_about_the_same(exported):
    saved_model, inputs, expected = exported
    small = to_tflite(saved_model, quantization="dynamic_range")
    assert len(small) < 0.7 * len(to_tflite(saved_model))
    for name, value in run_tflite(small, inputs).items():
        np.testing.assert_allclose(value, expected[name], atol=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize(("quantization", "size", "dtype"), [("float16", 0.8, np.float16), ("int8", 0.7, np.int8)])
def test_a_quantized_file_is_smaller_and_predicts_about_the_same(exported, quantization, size, dtype):
    saved_model, inputs, expected = exported
    examples = [{name: value[[row]] for name, value in inputs.items()} for row in range(5)]
    options = {"calibration": examples} if quantization == "int8" else {}
    small = to_tflite(saved_model, quantization=quantization, **options)
    assert len(small) < size * len(to_tflite(saved_model))
    assert dtype in {tensor["dtype"] for tensor in tf.lite.Interpreter(model_content=small).get_tensor_details()}
    for name, value in run_tflite(small, inputs).items():
        assert value.dtype == np.float32
        np.testing.assert_allclose(value, expected[name], atol=0.02)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"quantization": "int4"}, "quantization must be None or one of float16, dynamic_range, int8, got 'int4'"),
        ({"quantization": "int8"}, 'calibration is for quantization="int8", which needs it'),
        ({"calibration": []}, 'calibration is for quantization="int8", which needs it'),
    ],
)
def test_a_wrong_quantization_is_refused_before_the_conversion(options, line):
    with pytest.raises(ValueError) as error:
        to_tflite("nowhere", **options)
    assert str(error.value) == line


def test_onnx_predicts_as_the_estimator_for_any_batch(exported):
    pytest.importorskip("tf2onnx")
    pytest.importorskip("onnxruntime")
    saved_model, inputs, expected = exported
    outputs = run_onnx(to_onnx(saved_model), inputs)
    assert outputs.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-4)
