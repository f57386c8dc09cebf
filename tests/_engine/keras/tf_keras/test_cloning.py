"""A copy has all that the given model has; what cannot be copied is refused with what to pass instead."""

import gc
import os
import tempfile

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.keras.adapter_choice import model_source

layers = keras.layers


def copy_of(model):
    return model_source(model).copy(tf.distribute.get_strategy())


def files_in_memory():
    return set(tf.io.gfile.listdir("ram://")) if tf.io.gfile.isdir("ram://") else set()


class Frozen(keras.Model):
    def __init__(self):
        super().__init__()
        self.base = keras.Sequential([layers.Dense(4), layers.Dense(4)])
        self.head = layers.Dense(1)

    def call(self, inputs):
        return self.head(self.base(inputs))


def test_layers_frozen_after_construction_stay_frozen_in_subclassed_models():
    model = Frozen()
    model.base.trainable = False
    model.base.layers[1].trainable = True
    model.compile("sgd", "mse")
    model(tf.zeros((1, 3)))
    source = model_source(model)  # it holds the state until the copy is built
    copy = source.copy(tf.distribute.get_strategy())
    copy(tf.zeros((1, 3)))
    assert [layer.trainable for layer in copy.base.layers] == [False, True]
    assert len(copy.trainable_weights) == len(model.trainable_weights)


def test_the_state_of_a_given_model_is_kept_in_memory_and_not_in_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    others = files_in_memory()
    gc.freeze()  # what other tests have left takes a second to look through
    model = keras.Sequential([layers.Dense(2, input_shape=(3,))])
    model.compile("sgd", "mse")
    source = model_source(model)
    assert os.listdir(tmp_path) == []
    copy = source.copy(tf.distribute.get_strategy())
    np.testing.assert_array_equal(copy.get_weights()[0], model.get_weights()[0])
    (own,) = files_in_memory() - others
    del source
    gc.collect()
    assert own not in files_in_memory()


def test_what_is_done_to_the_given_model_later_is_not_seen():
    model = keras.Sequential([layers.Dense(2, input_shape=(3,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    before = model.get_weights()
    source = model_source(model)
    model.layers[0].trainable = False
    model.set_weights([weight + 1 for weight in before])
    model.compile("adam", "mae")
    copy = source.copy(tf.distribute.get_strategy())
    assert copy.layers[0].trainable and copy.loss == "mse"
    for ours, given in zip(copy.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, given)


def test_adapted_tf_idf_vocabularies_come_along():
    vectorize = layers.TextVectorization(output_mode="tf_idf")
    vectorize.adapt(["scan of an eye", "an eye", "a scan"])
    model = keras.Sequential([keras.Input((1,), dtype=tf.string), vectorize, layers.Dense(1)])
    model.compile("sgd", "mse")
    texts = tf.constant([["an eye"], ["scan"], ["of what"]])
    np.testing.assert_allclose(copy_of(model)(texts), model(texts), rtol=1e-6)


def test_weight_decay_exclusions_are_kept_by_name_and_refused_by_variable():
    model = keras.Sequential([layers.Dense(1, input_shape=(1,))])
    optimizer = keras.optimizers.AdamW(weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer, "mse")
    assert copy_of(model).optimizer._exclude_from_weight_decay_names == ["bias"]
    optimizer.exclude_from_weight_decay(var_list=[model.layers[0].bias])
    with pytest.raises(ValueError, match="exclude them by name"):
        model_source(model)


class OwnSequential(keras.Sequential):
    pass


class OwnArguments(keras.Model):
    def __init__(self, inputs, outputs, beta=1.0, **kwargs):
        super().__init__(inputs, outputs, **kwargs)
        self.beta = beta


class OwnCompile(keras.Model):
    def compile(self, second_optimizer, **kwargs):
        super().compile(**kwargs)
        self.second_optimizer = second_optimizer


def test_a_sequential_class_of_the_users_own_is_kept():
    model = OwnSequential([layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    copy = copy_of(model)
    assert type(copy) is OwnSequential
    np.testing.assert_array_equal(copy.get_weights()[0], model.get_weights()[0])


def test_models_with_own_arguments_or_compile_are_refused_with_the_remedy():
    inputs = keras.Input((2,))
    outputs = layers.Dense(1)(inputs)
    arguments = OwnArguments(inputs, outputs, beta=4.0)
    arguments.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"OwnArguments\(\) takes arguments.*keras_model=build_model"):
        et.model_to_estimator(arguments)
    compiled = OwnCompile(inputs, outputs)
    compiled.compile("sgd", optimizer="sgd", loss="mse")
    with pytest.raises(ValueError, match=r"overrides compile\(\).*model_to_estimator\(keras_model=build_model\)"):
        et.model_to_estimator(compiled)


@pytest.mark.parametrize("nested", [False, True])
def test_a_sequential_model_that_uses_a_layer_twice_is_refused(nested):
    relu = layers.ReLU()
    model = keras.Sequential([layers.Input([2]), layers.Dense(3), relu, layers.Dense(1), relu], name="inner")
    if nested:
        model = keras.Sequential([layers.Input([2]), model])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"re_lu\w* is used twice in the Sequential model inner\. Pass a function"):
        et.model_to_estimator(model)


@pytest.mark.parametrize("part", ["model", "dense"])
def test_a_function_passed_to_add_loss_is_refused(part):
    model = keras.Sequential([layers.Input([2]), layers.Dense(1, name="dense", kernel_regularizer="l2")], name="model")
    copy_of(compiled(model))
    (model if part == "model" else model.layers[0]).add_loss(lambda: tf.reduce_sum(model.layers[0].kernel))
    with pytest.raises(ValueError, match=rf"add_loss\(\) of {part}, and a copy would not have it\. Pass a function"):
        et.model_to_estimator(model)


def compiled(model):
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("generation", ["tf_keras", pytest.param("keras", marks=pytest.mark.slow)])
def test_functions_that_use_the_given_models_variables_are_refused(generation, batches, tmp_path):
    keras = pytest.importorskip(generation)

    def build():
        inputs = keras.Input((4,))
        dense = keras.layers.Dense(3)

        def decode(codes):
            return tf.matmul(codes, tf.convert_to_tensor(dense.kernel), transpose_b=True)

        return compiled(keras.Model(inputs, keras.layers.Lambda(decode, output_shape=(4,))(dense(inputs))))

    zeros = np.zeros((8, 4), "float32")
    estimator = et.model_to_estimator(build(), model_dir=tmp_path)
    for run in (estimator.train, estimator.evaluate):
        with pytest.raises(ValueError, match=r"Lambda layer, .* uses its variable .*kernel.* Pass a function"):
            run(batches((zeros, zeros), 4))
    et.model_to_estimator(build, model_dir=tmp_path).evaluate(batches((zeros, zeros), 4))


def test_arguments_that_configurations_lack_are_copied():
    dropouts = [layers.SpatialDropout2D(0.5, data_format="channels_first"), layers.AlphaDropout(0.5, (1,))]
    normalization = layers.BatchNormalization(synchronized=True)
    model = keras.Sequential([layers.Input([4, 4, 3]), normalization, keras.Sequential(dropouts)])
    optimizer = keras.optimizers.Adam(weight_decay=0.01, adaptive_epsilon=True)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(keras.mixed_precision.LossScaleOptimizer(optimizer), "mse")
    copy = copy_of(model)
    inner_optimizer = copy.optimizer.inner_optimizer
    assert inner_optimizer.adaptive_epsilon and inner_optimizer._exclude_from_weight_decay_names == ["bias"]
    normalization, inner = copy.layers
    assert normalization.synchronized and not normalization.fused
    assert inner.layers[0].data_format == "channels_first" and inner.layers[1].noise_shape == (1,)


def test_a_class_whose_init_uses_a_layer_twice_is_copied():
    class Twice(keras.Model):
        def __init__(self):
            super().__init__()
            dense = layers.Dense(2)
            self.inner = keras.Sequential([layers.Input([2]), dense, dense])

        def call(self, inputs):
            return self.inner(inputs)

    model = Twice()
    model.compile("sgd", "mse")
    inputs = tf.constant([[1.0, 2.0]])
    expected = model(inputs)
    np.testing.assert_array_equal(copy_of(model)(inputs), expected)


def test_layers_in_other_modules_are_copied_with_their_state(tmp_path):
    class Standardized(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = tf.Module()
            self.inner.normalize = layers.Normalization()
            self.inner.look_up = layers.IntegerLookup(vocabulary=[7, 9])

        def call(self, inputs):
            return {"scaled": self.inner.normalize(inputs), "index": self.inner.look_up(tf.cast(inputs, tf.int64))}

    model = Standardized()
    model.inner.normalize.adapt([[1.0], [5.0]])
    model.compile("sgd", "mse")
    inputs = tf.constant([[9.0]])
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    (prediction,) = estimator.predict(lambda: tf.data.Dataset.from_tensors(inputs))
    for name, value in model(inputs).items():
        np.testing.assert_array_equal(prediction[name], value[0])


def test_recurrent_layers_with_dropout_are_copied():
    model = keras.Sequential([layers.Input([3, 2]), layers.LSTM(4, dropout=0.5, recurrent_dropout=0.5)])
    model.compile("sgd", "mse")
    copy = copy_of(model)
    for mine, theirs in zip(copy.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_run_eagerly_is_not_ignored_in_silence(caplog):
    model = keras.Sequential([layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", run_eagerly=True)
    model_source(model)
    assert "run_eagerly=True" in caplog.text


@pytest.fixture(scope="module")
def flattening(tmp_path_factory):
    """A trained Estimator of a model whose Input is (4, 4), and which flattens it."""
    dense = layers.Dense(2, "softmax", kernel_initializer="ones", name="dense")
    model = keras.Sequential([layers.Flatten(input_shape=(4, 4)), dense])
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    estimator = et.model_to_estimator(model, model_dir=tmp_path_factory.mktemp("flattening"))
    return estimator.train(data_of((4, 4)))


def data_of(shape):
    random = np.random.RandomState(0)
    data = random.normal(size=(8, *shape)).astype("float32"), random.randint(2, size=(8, 1))
    return lambda: tf.data.Dataset.from_tensors(data).repeat(2)


def test_features_of_another_shape_than_the_inputs_go_through_the_layers(flattening, tmp_path):
    """The numbers are those of TensorFlow 2.15.1, for each of these shapes."""
    expected = pytest.approx([0.6455931, 0.3544069])
    for shape in [(16,), (2, 8), (4, 4, 1)]:
        assert flattening.evaluate(data_of(shape))["loss"] == pytest.approx(0.540621)
        assert next(flattening.predict(data_of(shape)))["dense"] == expected

    def receiver_fn():
        features = tf.compat.v1.placeholder(tf.float32, [None, 16])
        return et.export.TensorServingInputReceiver(features, features)

    exported = tf.saved_model.load(flattening.export_saved_model(tmp_path, receiver_fn).decode())
    features, _ = next(iter(data_of((16,))()))
    assert exported.signatures["serving_default"](features)["dense"][0].numpy() == expected
    assert flattening.train(data_of((16,))).get_variable_value("global_step") == 4


@pytest.mark.parametrize("method", ["train", "evaluate"])
def test_features_that_a_layer_cannot_take_are_refused(flattening, method):
    with pytest.raises(ValueError, match=r'layer "dense".*expected axis -1 .* value 16, .* shape \(8, 17\)'):
        getattr(flattening, method)(data_of((17,)))


def test_an_input_that_is_missing_is_named():
    first, second = keras.Input((2,), name="first"), keras.Input((2,), name="second")
    model = keras.Model({"first": first, "second": second}, layers.Add()([first, second]))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match='Missing data for input "second"'):
        copy_of(model)({"first": tf.ones([1, 2])})
