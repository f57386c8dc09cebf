"""Every way to give a Keras 3 model, and every kind of layer that it may have; what is refused, in one line."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
import warm_python

import estimator_train as et
from estimator_train._engine.keras.adapter_choice import model_source

layers = keras.layers


def copy_of(model, precision=None):
    return model_source(model).copy(tf.distribute.get_strategy(), precision)


def small(optimizer="sgd", loss="mse", **compiled):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(4), layers.Dense(1)])
    model.compile(optimizer, loss, **compiled)
    return model


def test_a_copy_is_complete_and_independent_of_the_given_model():
    normalization, lookup, text = (
        layers.Normalization(),
        layers.StringLookup(),
        layers.TextVectorization(output_mode="tf_idf"),
    )
    normalization.adapt(np.random.default_rng(1).normal(3, 2, (64, 4)).astype("float32"))
    lookup.adapt(np.array(["left", "right", "left"]))
    text.adapt(["scan of an eye", "an eye", "a scan"])
    scan, side, words = keras.Input((4,)), keras.Input((1,), dtype="string"), keras.Input((1,), dtype="string")
    base = keras.Sequential([layers.Dense(4), layers.BatchNormalization()], name="base")
    parts = [
        base(normalization(scan)),
        layers.Flatten()(layers.Embedding(4, 2)(lookup(side))),
        layers.Flatten()(text(words)),
    ]
    x = layers.Lambda(lambda parts: np.float32(2.0) * parts)(layers.Concatenate()(parts))
    model = keras.Model([scan, side, words], layers.Dense(2)(x))
    base.trainable = False
    base.layers[1].trainable = True
    model.layers[-1].bias.trainable = False
    optimizer = keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(0.1, 50))
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(optimizer, lambda y, p: keras.ops.mean((y - p) ** 2), metrics=["mae"], run_eagerly=True)
    inputs = np.ones((2, 4), "float32"), tf.constant([["left"], ["up"]]), tf.constant([["an eye"], ["scan"]])
    model.fit(inputs, np.ones((2, 2)), verbose=0)

    source, expected = model_source(model), model.predict(inputs, verbose=0)
    before = [variable.numpy() for variable in (*model.variables, *model.optimizer.variables)]
    model.set_weights([weight * 0 for weight in model.get_weights()])
    model.compile("sgd", "mae")
    copy = source.copy(tf.distribute.get_strategy())
    np.testing.assert_allclose(copy.predict(inputs, verbose=0), expected, rtol=1e-6)
    for ours, given in zip((*copy.variables, *copy.optimizer.variables), before, strict=True):
        np.testing.assert_array_equal(ours.numpy(), given)
    assert [layer.trainable for layer in copy.get_layer("base").layers] == [False, True]
    assert [weight.trainable for weight in copy.layers[-1].weights] == [True, False]
    assert copy.evaluate(inputs, np.ones((2, 2)), verbose=0, return_dict=True).keys() == {"loss", "mae"}


@pytest.mark.parametrize("name", ["model.keras", pytest.param("model.h5", marks=pytest.mark.slow)])
def test_a_saved_model_is_loaded_by_the_keras_that_saved_it(name, tmp_path):
    for number, kind in enumerate(
        (small(loss=keras.losses.Huber()), tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(3,))]))
    ):
        path = tmp_path / f"{number}.{name}"
        if number:
            kind.compile("sgd", "mse")
        kind.save(path)
        estimator = et.model_to_estimator(keras_model_path=path, model_dir=tmp_path / str(number))
        ones = np.ones((2, 3), "float32")
        (prediction, _) = estimator.predict(lambda ones=ones: tf.data.Dataset.from_tensors(ones))
        np.testing.assert_allclose(*prediction.values(), kind.predict(ones, verbose=0)[0], rtol=1e-6)


def test_a_weights_file_is_refused_but_loads_into_the_given_model(tmp_path):
    model = small()
    model.save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="^.*model.weights.h5 contains only the weights of a model; .* load_weights"):
        et.model_to_estimator(keras_model_path=tmp_path / "model.weights.h5")

    def build():
        built = small()
        built.load_weights(tmp_path / "model.weights.h5")
        return built

    for ours, given in zip(copy_of(build).get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, given)


def test_a_lambda_in_a_file_is_refused_unless_asked_for(tmp_path):
    model = keras.Sequential([keras.Input((3,)), layers.Lambda(lambda x: 2 * x), layers.Dense(1)])
    model.compile("sgd", "mse")
    model.save(tmp_path / "model.keras")
    with pytest.raises(
        ValueError, match="model.keras contains a lambda, which is Python code that would run; pass safe_mode=False"
    ):
        et.model_to_estimator(keras_model_path=tmp_path / "model.keras", model_dir=tmp_path / "run")
    et.model_to_estimator(keras_model_path=tmp_path / "model.keras", model_dir=tmp_path / "run", safe_mode=False)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_excludes_outputs_and_preprocessing(precision, tmp_path):
    base = keras.Sequential([layers.Dense(4), layers.ReLU()], name="base")
    model = keras.Sequential(
        [keras.Input((3,)), layers.Normalization(mean=0.0, variance=1.0), base, layers.Dense(1, name="head")]
    )
    model.compile("sgd", "mse")
    copy = copy_of(model, precision)
    assert [layer.compute_dtype for layer in copy.get_layer("base").layers] == [precision] * 2
    assert [copy.layers[0].compute_dtype, copy.layers[-1].compute_dtype] == ["float32"] * 2
    assert {weight.dtype for weight in copy.weights} == {"float32"}
    assert isinstance(copy.optimizer, keras.optimizers.LossScaleOptimizer) == (precision == "float16")

    batch = tf.ones((2, 3)), tf.zeros((2, 1))
    estimator = et.model_to_estimator(model, config=et.RunConfig(tmp_path, mixed_precision=precision))
    before = estimator.evaluate(lambda: tf.data.Dataset.from_tensors(batch))["loss"]
    estimator.train(lambda: tf.data.Dataset.from_tensors(batch).repeat(), max_steps=3)
    assert estimator.evaluate(lambda: tf.data.Dataset.from_tensors(batch))["loss"] < before
    assert keras.config.dtype_policy().name == "float32"


def test_settings_that_keras_3_cannot_use_on_replicas_are_refused(mirrored, tmp_path):
    def input_fn():
        return tf.data.Dataset.from_tensors((tf.ones((2, 3)), tf.ones((2, 1)))).repeat()

    config = et.RunConfig(tmp_path, train_distribute=mirrored(2))
    model = small()
    with pytest.raises(ValueError, match=r"Keras 3 cannot do on 2 replicas \(keras issue 18666\); use bfloat16"):
        et.model_to_estimator(model, config=config.replace(mixed_precision="float16")).train(input_fn, steps=1)
    model.compile(keras.optimizers.Adam(gradient_accumulation_steps=4), "mse")
    with pytest.raises(ValueError, match=r"cannot use on 2 replicas; set accumulate_steps=4 in RunConfig instead"):
        et.model_to_estimator(model, config=config).train(input_fn, steps=1)
    model.compile(keras.optimizers.Adam(use_ema=True, ema_overwrite_frequency=2), "mse")
    with pytest.raises(ValueError, match=r"ema_overwrite_frequency=2, which Keras 3 cannot use on 2 replicas"):
        et.model_to_estimator(model, config=config).train(input_fn, steps=1)


@pytest.mark.slow
def test_a_compiled_step_and_averages_of_weights_are_as_in_fit(data, batches, tmp_path):
    def build():
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation="softmax")])
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, use_ema=True))
        model.compile(optimizer, "categorical_crossentropy", jit_compile=True)
        return model

    model = build()
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(batches(data, 32))
    model.fit(batches(data, 32)(), verbose=0)
    ours = estimator.evaluate(batches(data, 48))["loss"]
    assert ours == pytest.approx(model.evaluate(batches(data, 48)(), verbose=0), rel=1e-6)


def test_a_copied_metric_keeps_the_arguments_of_its_function():
    model = small(metrics=[keras.metrics.CosineSimilarity(axis=0)])
    inputs, labels = np.ones((2, 3), "float32"), np.float32([[1], [2]])
    expected = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert copy_of(model).evaluate(inputs, labels, verbose=0, return_dict=True) == pytest.approx(expected)


def parts_of_another_keras():
    yield (
        lambda: small(metrics=[tf_keras.metrics.MeanAbsoluteError()]),
        "Keras 3 model .* of tf_keras; use its Keras 3 counterpart",
    )
    yield lambda: small(loss=tf_keras.losses.Huber()), "Keras 3 model .* of tf_keras; use its Keras 3 counterpart"
    old = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(3,))])
    old.compile("sgd", keras.losses.Huber())
    yield lambda: old, "tf_keras model .* of Keras 3; use its tf_keras counterpart"
    yield lambda: keras.Sequential([layers.Dense(1)]), "not been compiled yet"
    yield lambda: "model", "must be a compiled Keras model, given: 'model'"


@pytest.mark.parametrize(("build", "line"), list(parts_of_another_keras()))
def test_what_does_not_fit_together_gets_one_line(build, line, tmp_path):
    with pytest.raises(ValueError, match=line) as caught:
        et.model_to_estimator(build(), model_dir=tmp_path)
    assert "\n" not in str(caught.value)


def test_another_backend_gets_one_line(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(
        ValueError, match="Keras 3 uses the backend jax, .* set the environment variable KERAS_BACKEND=tensor"
    ):
        et.model_to_estimator(small())


def test_what_takes_models_apart_is_for_tf_keras(batches, tmp_path):
    from estimator_train._engine.keras.tf_keras.split import split_over

    batch = np.ones((4, 3), "float32"), np.ones((4, 1), "float32")
    estimator = et.model_to_estimator(small(), config=et.RunConfig(tmp_path, recompute=True))
    with pytest.raises(ValueError, match="is a Keras 3 model, .* without recompute, or build it with tf_keras"):
        estimator.train(batches(batch, 2))
    estimator = et.model_to_estimator(small(), model_dir=tmp_path)
    with pytest.raises(ValueError, match="is a Keras 3 model, .* without frozen_features, or build it with tf_keras"):
        estimator.train(et.input_fns.frozen_features(batches(batch, 2)))
    with pytest.raises(ValueError, match="pass a functional or Sequential model of tf_keras"):
        split_over(small(), ["CPU:0", "CPU:1"])
    with pytest.raises(ValueError, match="SmallOfItsOwn creates its layers itself.*build_model"):
        model = SmallOfItsOwn()
        model.compile("sgd", "mse")
        copy_of(model, "bfloat16")


class SmallOfItsOwn(keras.Model):
    def call(self, inputs):
        return inputs


def test_a_model_of_tf_keras_imports_no_keras_3(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "keras")
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    et.model_to_estimator(model, model_dir=tmp_path)
    assert "keras" not in sys.modules


@pytest.mark.slow
def test_keras_3_is_not_imported_without_a_model_of_its_own(tmp_path):
    (tmp_path / "script.py").write_text("""
import sys
import estimator_train as et
import tf_keras
model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(3,))])
model.compile("sgd", "mse")
et.model_to_estimator(model)
print("keras" in sys.modules)
""")
    result = warm_python.run([tmp_path / "script.py"], tmp_path)
    assert result.stdout.strip() == "False", result.stderr
