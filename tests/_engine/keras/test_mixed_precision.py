"""mixed_precision: layers compute in 16 bits; variables, outputs and results stay in 32."""

import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.keras.adapter_choice import model_source

layers = keras.layers


def build():
    base = keras.Sequential([layers.Conv2D(2, 3, input_shape=(8, 8, 1)), layers.ReLU()], name="base")
    both = [layers.Normalization(mean=0.0, variance=1.0, input_shape=(8, 8, 1)), base, layers.Flatten()]
    model = keras.Sequential([*both, layers.Dense(2, "softmax", name="head")])
    model.compile(keras.optimizers.Adam(0.05), "categorical_crossentropy", metrics=["accuracy"])
    return model


def copy(model, precision):
    return model_source(model).copy(tf.distribute.get_strategy(), precision)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_layers_compute_in_it_but_for_outputs_and_preprocessing(precision):
    mixed = copy(build(), precision)
    normalization, base, flatten, head = mixed.layers
    assert [layer.compute_dtype for layer in (*base.layers, flatten)] == [precision] * 3
    assert [layer.compute_dtype for layer in (normalization, head)] == ["float32"] * 2
    assert {weight.dtype for weight in mixed.trainable_weights} == {tf.float32}
    assert mixed(tf.zeros((1, 8, 8, 1))).dtype == tf.float32


def test_categories_are_encoded_in_float32():
    encoding = layers.CategoryEncoding(4, "multi_hot", input_shape=(1,))
    model = keras.Sequential([encoding, layers.Dense(3), layers.Dense(2)])
    model.compile("sgd", "mse")
    encoding, dense, _ = copy(model, "bfloat16").layers
    assert (encoding.compute_dtype, dense.compute_dtype) == ("float32", "bfloat16")


def test_the_copy_keeps_weights_and_optimizer_and_scales_a_float16_loss():
    model = build()
    model.run_eagerly = True
    model.fit(tf.ones((2, 8, 8, 1)), tf.one_hot([0, 1], 2), verbose=0)
    mixed = copy(model, "float16")
    for ours, theirs in zip(mixed.get_weights(), model.get_weights(), strict=True):
        assert (ours == theirs).all()
    assert isinstance(mixed.optimizer, keras.mixed_precision.LossScaleOptimizer)
    assert mixed.optimizer.inner_optimizer.iterations == 1
    assert not isinstance(copy(model, "bfloat16").optimizer, keras.mixed_precision.LossScaleOptimizer)


@pytest.mark.slow
@pytest.mark.parametrize(("given", "precision"), [(build(), "bfloat16"), (build, "float16")], ids=["model", "function"])
def test_it_trains_and_gives_float32(given, precision, tmp_path):
    batch = tf.ones((2, 8, 8, 1)), tf.one_hot([0, 0], 2)
    estimator = et.model_to_estimator(given, config=et.RunConfig(tmp_path, mixed_precision=precision))
    before = estimator.evaluate(lambda: tf.data.Dataset.from_tensors(batch))["loss"]
    estimator.train(lambda: tf.data.Dataset.from_tensors(batch).repeat(), max_steps=4)
    metrics = estimator.evaluate(lambda: tf.data.Dataset.from_tensors(batch))
    assert metrics["global_step"] == 4
    assert metrics["loss"] < before
    keras_model = build()
    keras_model.run_eagerly = True
    keras_model.load_weights(estimator.latest_checkpoint()).expect_partial()
    loss = keras_model.evaluate(*batch, verbose=0)[0]
    assert loss == pytest.approx(metrics["loss"], abs=1e-2)


@pytest.mark.gpu
def test_float16_trains_on_a_gpu_as_float32_does(gpus, tmp_path):
    batch = tf.random.stateless_uniform((8, 8, 8, 1), [1, 2]), tf.one_hot([0, 1] * 4, 2)
    losses = {}
    for precision in (None, "float16"):
        keras.utils.set_random_seed(7)
        config = et.RunConfig(tmp_path / str(precision), mixed_precision=precision, train_distribute=gpus(1))
        estimator = et.model_to_estimator(build(), config=config)
        estimator.train(lambda: tf.data.Dataset.from_tensors(batch).repeat(), steps=5)
        losses[precision] = estimator.evaluate(lambda: tf.data.Dataset.from_tensors(batch))["loss"]
    assert losses["float16"] == pytest.approx(losses[None], abs=1e-2)


def test_what_cannot_be_scaled_and_what_scales_already_is_refused():
    model = build()
    model.compile(tf.compat.v1.train.GradientDescentOptimizer(0.1), "mse")
    with pytest.raises(ValueError, match='scales the loss, .* use a Keras optimizer, or "bfloat16"'):
        copy(model, "float16")
    model.compile(keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD()), "mse")
    with pytest.raises(ValueError, match="already uses mixed precision; leave out mixed_precision"):
        copy(model, "float16")


def test_the_policy_of_the_process_is_unchanged():
    copy(build, "bfloat16")
    assert keras.mixed_precision.global_policy().name == "float32"
