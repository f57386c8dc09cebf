"""SavedModels of Keras models give what predict gives, under the signatures of any receiver."""

import os

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from keras.src.applications import convnext
from tf_keras.src.applications import efficientnet

import estimator_train as et
from tests.fuzz import applications

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def estimator(data, batches, tmp_path_factory):
    """A trained Estimator of a model with BatchNorm, whose state an export must hold."""
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.layers.Dense(8, activation="tanh", input_shape=(4,)),
            keras.layers.BatchNormalization(momentum=0.5),
            keras.layers.Dense(3, activation="softmax", name="classes"),
        ]
    )
    model.compile("adam", "categorical_crossentropy")
    return et.model_to_estimator(model, model_dir=tmp_path_factory.mktemp("run")).train(batches(data, 16))


def raw():
    return et.export.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 4])})


def predictions(estimator, data):
    examples = estimator.predict(lambda: tf.data.Dataset.from_tensor_slices(data[0]).batch(32))
    return np.stack([example["classes"] for example in examples])


@pytest.mark.slow
def test_parsed_examples_and_placeholders_of_v1_are_served(estimator, data, tmp_path):
    def receiver():
        examples = v1.placeholder(tf.string, [None])
        parsed = v1.io.parse_example(examples, {"x": tf.io.FixedLenFeature([4], tf.float32)})
        x = v1.placeholder_with_default(parsed["x"], [None, 4])
        return et.export.TensorServingInputReceiver(x, {"examples": examples}, {"raw": {"x": x}})

    folder = estimator.export_saved_model(tmp_path / "export", receiver).decode()
    loaded = tf.saved_model.load(folder)
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.extend(data[0][0])
    served = loaded.signatures["serving_default"](examples=tf.constant([example.SerializeToString()]))
    expected = predictions(estimator, data)
    np.testing.assert_allclose(served["classes"][0], expected[0], atol=1e-6)
    served = loaded.signatures["raw:serving_default"](x=tf.constant(data[0]))
    np.testing.assert_allclose(served["classes"], expected, atol=1e-6)


def test_classification_has_its_method_and_text_can_be_had(classifier, data, batches, tmp_path):
    model = classifier()
    name = model.output_names[0]
    outputs = {name: et.export.ClassificationOutput}
    estimator = et.model_to_estimator(model, model_dir=tmp_path / "run", export_outputs=outputs)
    receiver = et.export.build_parsing_serving_input_receiver_fn({"x": tf.io.FixedLenFeature([4], tf.float32)})
    folder = estimator.export_saved_model(tmp_path / "export", receiver, as_text=True).decode()
    assert sorted(os.listdir(folder)) == ["assets", "fingerprint.pb", "saved_model.pbtxt", "variables"]
    with v1.Session(graph=tf.Graph()) as session:
        signatures = v1.saved_model.load(session, ["serve"], folder).signature_def
        assert signatures["serving_default"].method_name == tf.saved_model.PREDICT_METHOD_NAME
        assert signatures[name].method_name == tf.saved_model.CLASSIFY_METHOD_NAME
        example = tf.train.Example()
        example.features.feature["x"].float_list.value.extend(data[0][0])
        fed = {signatures[name].inputs["inputs"].name: [example.SerializeToString()]}
        scores = session.run(signatures[name].outputs["scores"].name, fed)
    np.testing.assert_allclose(scores, model(data[0][:1]), atol=1e-6)


@pytest.mark.smoke
def test_an_untrained_model_is_exported_as_given(classifier, data, tmp_path):
    model = classifier()
    folder = et.model_to_estimator(model, model_dir=tmp_path / "run").export_saved_model(tmp_path, raw()).decode()
    served = tf.saved_model.load(folder).signatures["serving_default"](x=tf.constant(data[0]))
    np.testing.assert_allclose(served[model.output_names[0]], model(data[0]), atol=1e-6)


def test_lookup_tables_are_exported(tmp_path):
    words = keras.layers.StringLookup(vocabulary=["a", "b"])
    inputs = keras.Input([1], dtype=tf.string, name="word")
    model = keras.Model(inputs, keras.layers.Embedding(3, 2, name="vector")(words(inputs)))
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(model, model_dir=tmp_path / "run")
    receiver = et.export.build_raw_serving_input_receiver_fn({"word": tf.constant([["a"]])})
    folder = estimator.export_saved_model(tmp_path / "export", receiver).decode()
    given = tf.constant([["b"], ["z"]])
    served = tf.saved_model.load(folder).signatures["serving_default"](word=given)
    np.testing.assert_allclose(served["vector"], model(given), atol=1e-6)


def test_training_modes_are_refused(estimator, tmp_path):
    with pytest.raises(ValueError, match="only be exported for 'infer'"):
        estimator.experimental_export_all_saved_models(tmp_path / "export", {"train": raw()})
    assert not (tmp_path / "export").exists() or os.listdir(tmp_path / "export") == []


@tf.custom_gradient
def scaled(x):
    y = tf.sigmoid(x)
    return y, lambda gradient: 5 * gradient * y


def served_and_predicted(estimator, folder):
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    loaded = tf.saved_model.load(estimator.export_saved_model(folder, raw()).decode())
    (served,) = loaded.signatures["serving_default"](x=tf.constant(x)).values()
    predicted = estimator.predict(lambda: tf.data.Dataset.from_tensors(x))
    return served, np.stack([next(iter(example.values())) for example in predicted]), loaded


@pytest.mark.parametrize("kind", [keras, pytest.param(keras3, marks=pytest.mark.slow)], ids=["tf_keras", "keras3"])
def test_custom_gradients_with_captures_are_exported(kind, tmp_path):
    layers = [kind.layers.Dense(3, "swish"), kind.layers.Activation(scaled), kind.layers.Dense(2)]
    model = kind.Sequential([kind.Input([4], name="x"), *layers])
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(lambda: model, model_dir=tmp_path / "run")
    served, predicted, loaded = served_and_predicted(estimator, tmp_path / "export")
    np.testing.assert_allclose(served, predicted, atol=1e-6)
    signature = loaded.signatures["serving_default"]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(next(iter(signature(x=tf.ones([1, 4])).values())))
    with tf.GradientTape() as expected:
        expected_loss = tf.reduce_sum(model(tf.ones([1, 4])))
    gradients = tape.gradient(loss, [v for v in signature.variables if v.shape == [4, 3]])
    weight = model.trainable_variables[0]
    weight = weight.value if kind is keras3 else weight
    np.testing.assert_allclose(gradients[0], expected.gradient(expected_loss, weight), atol=1e-5)


def test_a_gradient_that_cannot_be_saved_is_left_out(tmp_path, caplog):
    factor = tf.constant(3.0)  # an eager tensor, which SavedModels cannot hold for a gradient
    tripled = tf.custom_gradient(lambda x: (tf.identity(x), lambda gradient: factor * gradient))
    model = keras.Sequential([keras.Input([4], name="x"), keras.layers.Activation(tripled), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(lambda: model, model_dir=tmp_path / "run")
    served, predicted, _ = served_and_predicted(estimator, tmp_path / "export")
    np.testing.assert_allclose(served, predicted, atol=1e-6)
    assert "only served: Found invalid capture" in caplog.text


class Measured(keras3.layers.Layer):
    """Updates a metric in `call`."""

    def __init__(self, **options):
        super().__init__(**options)
        self.mean = keras3.metrics.Mean()

    def call(self, inputs):
        self.mean.update_state(inputs)
        return inputs


def test_a_keras3_layer_with_a_metric_is_exported(tmp_path):
    model = keras3.Sequential([keras3.Input([4], name="x"), Measured(), keras3.layers.Dense(2)])
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(model, model_dir=tmp_path / "run")
    served, predicted, _ = served_and_predicted(estimator, tmp_path / "export")
    np.testing.assert_allclose(served, predicted, atol=1e-6)


# Both have few blocks, but all of their kinds of layers: one has a custom gradient, the other layers of its own.
# `tests.fuzz applications` exports every classifier as it is.
def efficient_net(**options):
    blocks = [{**block, "repeats": 1} for block in efficientnet.DEFAULT_BLOCKS_ARGS[:2]]
    return efficientnet.EfficientNet(0.25, 1.0, 32, blocks_args=blocks, **options)


def conv_next(**options):
    return convnext.ConvNeXt([1, 1, 1, 1], [8, 8, 8, 8], drop_path_rate=0.1, layer_scale_init_value=0.1, **options)


@pytest.mark.slow
@pytest.mark.parametrize("build", [efficient_net, conv_next])
def test_the_export_of_an_application_agrees_with_predict(build, tmp_path):
    model = build(weights=None, input_shape=(32, 32, 3), classes=5, classifier_activation=None)
    applications.check_export(model, tmp_path)
