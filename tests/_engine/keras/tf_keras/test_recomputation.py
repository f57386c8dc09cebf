"""recompute: a model trains alike, and its backward pass runs most of the forward pass again."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from tensorflow.python.eager import context

import estimator_train as et
from estimator_train._engine.keras.tf_keras.recomputation import recomputing
from estimator_train._engine.remedies import UnsuitableError

layers = keras.layers


@pytest.fixture
def model():
    inputs = keras.Input((8, 8, 1))
    first = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    second = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(first))
    joined = layers.Conv2D(4, 3, activation="relu")(layers.Add()([first, second]))
    flat = layers.Dropout(0.0)(layers.Flatten()(layers.Conv2D(4, 3)(joined)))
    model = keras.Model(inputs, layers.Dense(2, "softmax", kernel_regularizer="l2")(flat))
    model.compile(keras.optimizers.SGD(0.1), "categorical_crossentropy", metrics=["accuracy"])
    return model


@pytest.mark.slow
def test_training_gives_the_same(model, mirrored, batches, tmp_path):
    images = np.random.default_rng(3).normal(size=(32, 8, 8, 1)).astype("float32")
    data = images, np.eye(2, dtype="float32")[np.arange(32) % 2]
    results = []
    for recompute in (False, True):
        both = {"train_distribute": mirrored(2), "accumulate_steps": 2}
        config = et.RunConfig(tmp_path / str(recompute), recompute=recompute, **both)
        estimator = et.model_to_estimator(model, config=config)
        estimator.train(batches(data, 8, epochs=2))
        results.append((estimator.get_variable_names(), estimator.evaluate(batches(data, 8))))
    assert results[1][0] == results[0][0]
    assert results[1][1] == pytest.approx(results[0][1], abs=1e-5)


@pytest.mark.slow
def test_the_backward_pass_runs_the_layers_again_but_for_those_that_change(model):
    graphs = []
    for each in (model, recomputing(model, tf.distribute.get_strategy())):
        function = tf.function(each.train_step).get_concrete_function((tf.zeros((2, 8, 8, 1)), tf.zeros((2, 2))))
        graphs.append([operation.type for operation in function.graph.get_operations()])
    assert [graph.count("Conv2D") for graph in graphs] == [4, 8]
    assert [graph.count("FusedBatchNormV3") for graph in graphs] == [1, 1]


@pytest.mark.slow
def test_xla_leaves_the_recomputation_as_it_is():
    dense = [layers.Dense(4, activation="relu") for _ in range(6)]
    model = keras.Sequential([keras.Input((4,)), *dense])
    model.compile("sgd", "mse")
    counts = []
    for each in (model, recomputing(model, tf.distribute.get_strategy())):
        step = tf.function(each.train_step, jit_compile=True)
        compiled = step.experimental_get_compiler_ir((tf.zeros((8, 4)), tf.zeros((8, 4))))(stage="optimized_hlo")
        counts.append(compiled.count(" dot("))
    assert counts == [17, 23]  # forward, gradients of the kernels, and of all inputs but the first


def with_added_loss(inputs):
    features = layers.Dense(3, activation="relu")(inputs)
    model = keras.Model(inputs, layers.Dense(1)(features))
    model.add_loss(tf.reduce_mean(tf.square(layers.Dense(2)(features))))
    return model


def with_a_segment_that_has_no_gradient(inputs):
    return keras.Model(inputs, layers.Dense(1)(layers.Lambda(tf.stop_gradient)(layers.Dense(3)(inputs))))


def with_an_output_that_nothing_takes(inputs):
    inner = keras.Input((4,))
    features = layers.Dense(3)(inner)
    base = keras.Model(inner, [layers.BatchNormalization()(features), layers.Dense(3)(layers.Dense(3)(features))])
    return keras.Model(inputs, layers.Dense(1)(base(inputs)[0]))


def with_a_base_of_named_inputs(inputs):
    """Changes the dtype and shape of its input."""
    name, size = keras.Input((4,), name="name", dtype="float64"), keras.Input((1,), name="size")
    base = keras.Model([size, name], layers.Dense(3)(layers.Concatenate()([tf.cast(name, tf.float32), size])))
    return keras.Model(inputs, layers.Dense(1)(base({"name": inputs, "size": inputs[:, 0]})))


def with_integers(inputs):
    buckets = layers.Discretization([-1.0, 0.0, 1.0])(inputs)
    return keras.Model(inputs, layers.Dense(1)(layers.Flatten()(layers.Embedding(4, 2)(buckets))))


def with_shared_layers(inputs):
    shared, base = layers.Dense(4), keras.Sequential([layers.Dense(4, input_shape=(4,)), layers.ReLU()])
    return keras.Model(inputs, layers.Dense(1)(base(shared(base(shared(inputs))))))


def with_states(inputs):
    rnn = layers.SimpleRNN(3, return_sequences=True, return_state=True, unroll=True)
    sequence, state = rnn(layers.Reshape((2, 2))(inputs))
    return keras.Model(inputs, layers.Dense(1)(layers.SimpleRNN(3, unroll=True)(sequence, initial_state=state)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        with_added_loss,
        with_a_segment_that_has_no_gradient,
        with_an_output_that_nothing_takes,
        with_a_base_of_named_inputs,
        with_integers,
        with_shared_layers,
        with_states,
    ],
)
def test_graphs_of_every_kind_train_alike(build, data):
    losses = []
    for recompute in (False, True):
        keras.utils.set_random_seed(1)
        model = build(keras.Input((4,)))
        model.compile(keras.optimizers.SGD(0.1), "mse")
        trained = recomputing(model, tf.distribute.get_strategy()) if recompute else model
        losses.append([trained.train_on_batch(data[0], data[1][:, :1]) for _ in range(4)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_no_weight_is_updated_before_the_recomputation_has_read_it(data):
    model = with_added_loss(keras.Input((4,)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    trained = recomputing(model, tf.distribute.get_strategy())

    @tf.function(autograph=False)
    def step(data):
        with tf.name_scope("looked_at"):
            return trained.train_step(data)

    context.enable_graph_collection()
    step((data[0], data[1][:, :1]))
    graphs = [each.post_optimization_graph for each in context.export_run_metadata().function_graphs]
    context.disable_graph_collection()

    ours = [graph for graph in graphs if any(node.name.startswith("looked_at/") for node in graph.node)]
    nodes = {node.name: node for node in max(ours, key=lambda graph: len(graph.node)).node}

    def before(name):
        found, new = set(), [name]
        while new:
            inputs = {each.lstrip("^").split(":")[0] for each in nodes[new.pop()].input} - found
            found |= inputs
            new += inputs
        return found

    updates = {node.input[0]: before(node.name) for node in nodes.values() if node.op == "AssignAddVariableOp"}
    reads = [node for node in nodes.values() if node.op == "ReadVariableOp" and "dense" in node.name]
    assert len(reads) == 12 and all(node.name in updates[node.input[0]] for node in reads)


@pytest.mark.slow
def test_models_that_cannot_be_taken_apart_are_refused():
    class Own(keras.Sequential):
        pass

    with pytest.raises(UnsuitableError, match="is of the custom class Own, .*; train it without recompute"):
        recomputing(Own([layers.Dense(1, input_shape=(2,))]), tf.distribute.get_strategy())
    masked = keras.Sequential([layers.Embedding(9, 2, mask_zero=True, input_shape=(3,)), layers.LSTM(2)])
    with pytest.raises(UnsuitableError, match="Layer embedding.* outputs a mask, which would be lost"):
        recomputing(masked, tf.distribute.get_strategy())
