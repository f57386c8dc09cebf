"""A model split over devices computes, trains and saves the same as unsplit, and uses all devices."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from tensorflow.python.eager import context

import estimator_train as et
from estimator_train._engine.keras.adapter_choice import model_source
from estimator_train._engine.keras.tf_keras.split import balance, split_over
from examples import unet3d

layers = keras.layers
DEVICES = ["CPU:0", "CPU:1"]


@pytest.fixture(scope="module")
def unet():
    keras.utils.set_random_seed(7)
    return unet3d.build_model(8, filters=2, poolings=1)


@pytest.fixture(scope="module")
def split(unet):
    return split_over(unet, DEVICES)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(3)
    volumes = rng.normal(size=(2, 8, 8, 8, 1)).astype("float32")
    return volumes, (volumes > 0.5).astype("float32")


def device_of(tensor):
    return tensor.device[-5:]


def outputs_and_gradients(model, features, labels):
    @tf.function
    def compute(features, labels):
        with tf.GradientTape() as tape:
            outputs = model(features, training=True)
            loss = model.compute_loss(features, labels, outputs)
        gradients = tape.gradient(loss, model.trainable_variables)
        return outputs, [tf.convert_to_tensor(gradient) for gradient in gradients]

    return compute(tf.constant(features), tf.constant(labels))


def assert_same(model, split, features, labels):
    outputs, gradients = outputs_and_gradients(model, features, labels)
    split_outputs, split_gradients = outputs_and_gradients(split, features, labels)
    np.testing.assert_allclose(split_outputs, outputs, atol=1e-5)
    for ours, theirs in zip(split_gradients, gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.slow
def test_a_split_unet_computes_the_outputs_and_gradients_of_the_whole(unet, batch):
    assert_same(unet, split_over(unet, DEVICES), *batch)  # a new split, because other tests train theirs


@pytest.mark.slow
def test_both_devices_do_the_forward_and_the_backward_work(split, batch):
    context.enable_run_metadata()
    try:
        split.train_on_batch(*batch)
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    work = collections.defaultdict(collections.Counter)
    for graph in graphs:
        for partition in graph.partition_graphs:  # each device's graph as it runs
            for node in partition.node:
                work[device_of(node)][node.op.removeprefix("_MklNative")] += 1  # oneDNN's kernel of an op
    for device in DEVICES:
        assert work[device]["Conv3D"] and work[device]["Conv3DBackpropFilterV2"], work[device]
    count = len([layer for layer in split.layers if isinstance(layer, layers.Conv3D)])
    assert sum(work[device]["Conv3DBackpropFilterV2"] for device in DEVICES) >= count - len(DEVICES)


@pytest.mark.slow
def test_variables_and_optimizer_slots_are_on_the_device_of_their_layer(split, batch):
    split.train_on_batch(*batch)
    places = {weight.name: device_of(weight) for weight in split.weights}
    assert set(places.values()) == set(DEVICES)
    for name, place in places.items():
        slots = [variable for variable in split.optimizer.variables if variable.name.endswith(f"/{name}")]
        assert len(slots) == (0 if "moving" in name else 2)
        assert {device_of(slot) for slot in slots} <= {place}


@pytest.mark.slow
def test_a_checkpoint_of_a_split_model_is_the_models(tmp_path):
    inner = [layers.Dense(4, activation="relu"), layers.BatchNormalization(), layers.Dense(3)]
    model = keras.Sequential([keras.Input((4,)), *inner])
    model.compile("adam", "mse", metrics=["mae"])
    split = split_over(model, DEVICES)
    assert {device_of(weight) for weight in split.weights} == set(DEVICES)
    batch = np.random.default_rng(3).normal(size=(8, 4)).astype("float32"), np.ones((8, 3), "float32")
    estimator = et.model_to_estimator(split, model_dir=str(tmp_path))
    estimator.train(lambda: tf.data.Dataset.from_tensors(batch).repeat(), steps=2)
    whole = et.model_to_estimator(model, model_dir=str(tmp_path))
    data = lambda: tf.data.Dataset.from_tensors(batch)  # noqa: E731
    assert whole.evaluate(data) == pytest.approx(estimator.evaluate(data), abs=1e-5)
    whole.train(lambda: tf.data.Dataset.from_tensors(batch).repeat(), steps=1)  # the optimizer's state fits, too


@pytest.mark.slow
def test_recurrent_masked_and_shared_layers_are_split():
    tokens = keras.Input((5,), dtype=tf.int64)
    embed = layers.Embedding(10, 4, mask_zero=True, name="embedding")
    states = layers.SimpleRNN(3, name="recurrent")
    joined = layers.Concatenate(name="join")([states(embed(tokens)), states(embed(tokens + 1))])
    model = keras.Model(tokens, layers.Dense(2, "softmax", kernel_regularizer="l2", name="head")(joined))
    model.compile("adam", "sparse_categorical_crossentropy")
    split = split_over(model, {"embedding": "CPU:0", "[rh]*": "CPU:2", "*": "CPU:1"})
    assert [device_of(weight) for weight in split.weights] == ["CPU:0", *["CPU:2"] * 5]
    rng = np.random.default_rng(4)
    assert_same(model, split, rng.integers(0, 9, (8, 5)), rng.integers(0, 2, 8))


def test_a_tensor_that_a_layer_takes_twice_has_one_gradient():
    inputs = keras.Input((4,))
    outputs = layers.Dense(2)(inputs)
    model = keras.Model(inputs, layers.Add()([outputs, outputs]))
    model.compile("sgd", "mse")
    assert_same(model, split_over(model, DEVICES), np.ones((3, 4), "float32"), np.ones((3, 2), "float32"))


@pytest.mark.slow
def test_a_layer_that_branches_on_tensors_still_does():
    class Doubling(layers.Layer):
        def call(self, inputs):
            if tf.reduce_sum(inputs) > 0:
                inputs = 2 * inputs
            return inputs

    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(1)(Doubling()(inputs)))
    model.compile("sgd", "mse")
    split = split_over(model, DEVICES)
    for features in (np.ones((2, 4), "float32"), -np.ones((2, 4), "float32")):
        assert_same(model, split, features, np.ones((2, 1), "float32"))


def test_balance_gives_devices_stretches_of_about_the_same_bytes():
    layer_sizes = {"small": 10, "large": 40, "larger": 50}
    inputs = outputs = keras.Input((1000,))
    for name, units in layer_sizes.items():
        outputs = layers.Dense(units, use_bias=False, name=name)(outputs)
    places = balance(keras.Model(inputs, outputs), ["GPU:0", "GPU:1"])  # which need not be there
    assert places == {"small": "GPU:0", "large": "GPU:1", "larger": "GPU:1"}


def test_layers_placed_by_the_user_keep_their_devices_in_the_copy():
    inputs = keras.Input((4,))
    with tf.device("CPU:1"):
        outputs = layers.Dense(3, name="there")(inputs)
    model = keras.Model(inputs, layers.Dense(1, name="here")(outputs))
    model.compile("sgd", "mse")
    copy = model_source(model).copy(tf.distribute.get_strategy())
    assert [device_of(weight) for weight in copy.weights] == ["CPU:1", "CPU:1", "CPU:0", "CPU:0"]
    graph = tf.function(copy).get_concrete_function(tf.zeros((1, 4))).graph
    products = [device_of(operation) for operation in graph.get_operations() if operation.type == "MatMul"]
    assert products[0] == "CPU:1"


def test_a_device_inside_call_is_kept():
    class There(layers.Layer):
        def call(self, inputs):
            with tf.device("CPU:2"):
                return tf.exp(inputs)

    model = keras.Sequential([keras.Input((4,)), There(), layers.Dense(1)])
    model.compile("sgd", "mse")
    copy = model_source(model).copy(tf.distribute.get_strategy())
    graph = tf.function(copy).get_concrete_function(tf.zeros((1, 4))).graph
    assert [device_of(operation) for operation in graph.get_operations() if operation.type == "Exp"] == ["CPU:2"]


@pytest.mark.slow
def test_optimizers_of_split_models_do_not_compile_with_xla(unet):
    split = split_over(unet, DEVICES)
    split.optimizer.jit_compile = True  # Keras' default where there are GPUs
    assert not model_source(split).copy(tf.distribute.get_strategy()).optimizer.jit_compile


@pytest.mark.slow
def test_a_saved_split_model_is_the_plain_model(tmp_path, unet, split):
    split.save(tmp_path / "split.keras")
    loaded = keras.models.load_model(tmp_path / "split.keras", compile=False)
    assert [type(layer) for layer in loaded.layers] == [type(layer) for layer in unet.layers]
    assert {device_of(weight) for weight in loaded.weights} == {"CPU:0"}


def test_replicas_of_a_split_model_are_refused(split, mirrored):
    with pytest.raises(RuntimeError, match="is placed on CPU:., but a strategy of 2 replicas"):
        model_source(split).copy(mirrored(2))


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (["CPU:0", "CPU:9"], "there is no device CPU:9; TensorFlow sees CPU:0, CPU:1, CPU:2"),
        ({"encoder_*": "CPU:0"}, 'layer bottom_conv_0 matches none of encoder_.*; add it, or "\\*" as the last'),
        ({"tail": "CPU:0", "*": "CPU:1"}, "no layer matches tail; there are encoder_0_conv_0"),
        (["CPU:0"] * 99, "unet3d has 22 layers, fewer than the 99 devices"),
    ],
)
def test_devices_that_do_not_fit_are_refused(unet, devices, message):
    with pytest.raises(ValueError, match=message):
        split_over(unet, devices)


def test_models_that_cannot_be_split_are_refused(unet):
    class Subclassed(keras.Model):
        pass

    with pytest.raises(ValueError, match="is not a graph of layers; pass a functional or Sequential model"):
        split_over(Subclassed(), DEVICES)
    varying = keras.Sequential([keras.Input((None, 4)), layers.Dense(2, name="first"), layers.Dense(1)])
    varying.compile("sgd", "mse")
    with pytest.raises(ValueError, match="layer first has outputs without a fixed size"):
        split_over(varying, DEVICES)
    varying.compile("sgd", "mse", jit_compile=True)
    with pytest.raises(ValueError, match="compiled with jit_compile=True"):
        split_over(varying, {"*": "CPU:1"})
