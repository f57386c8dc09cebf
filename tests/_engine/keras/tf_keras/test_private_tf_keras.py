"""Each private name of tf_keras, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras.tf_keras import private_tf_keras
from estimator_train._engine.session import private_tensorflow


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def two_replicas():
    # Not the default reduction: its collective ops would meet those of other strategies of the process.
    reduction = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduction)


def test_whether_a_variable_of_a_graph_has_a_value(graph):
    """A model of a program of TensorFlow 1 would begin with other weights than it was given."""
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    assert not any(map(private_tf_keras.is_initialized_by_keras, model.weights))
    model.set_weights([np.ones([1, 1]), np.ones([1])])
    assert all(map(private_tf_keras.is_initialized_by_keras, model.weights))


def test_exclusions_from_weight_decay():
    """A copy of a model would decay weights that the model's optimizer leaves alone."""
    optimizer, by_name, by_variable = (keras.optimizers.AdamW() for _ in range(3))
    by_name.exclude_from_weight_decay(var_names=["bias"])
    by_variable.exclude_from_weight_decay(var_list=[tf.Variable(1.0)])
    assert private_tf_keras.weight_decay_exclusions(optimizer) == ([], [])
    assert private_tf_keras.weight_decay_exclusions(keras.optimizers.legacy.Adam()) == ([], [])
    assert private_tf_keras.weight_decay_exclusions(by_name) == ([], ["bias"])
    variables, names = private_tf_keras.weight_decay_exclusions(by_variable)
    assert len(variables) == 1
    assert names == []


def test_the_tensors_that_metrics_returned_last(two_replicas):
    """Over several workers metrics would be added up: their results are those of all workers already."""
    strategy = two_replicas
    with strategy.scope():
        accuracy, unused = keras.metrics.Mean(), keras.metrics.Mean()
    found = []

    @tf.function(autograph=False)
    def run():
        def step():
            accuracy.update_state(3.0)
            return accuracy.result()

        result = strategy.run(step)
        found.append((private_tf_keras.last_metric_results([unused, accuracy]), result))
        return result

    assert run().numpy() == 3
    (results, result), *_ = found
    assert [value is result for value in results] == [True]


def test_classes_of_keras_are_those_of_eager_mode_and_then_a_graphs_again(graph):
    """Once a layer was made in a v1 graph, an Estimator's copies would use the TensorFlow 1 engine."""
    of_graph = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    with private_tf_keras.eager_classes(), private_tensorflow.eager_mode():
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    with private_tf_keras.eager_classes(), private_tensorflow.eager_mode():
        model.compile("sgd", "mse")
        assert model.fit(tf.ones([2, 2]), tf.ones([2, 1]), verbose=0).epoch == [0]
    of_graph.compile("sgd", "mse")
    assert of_graph.fit(np.ones([2, 2]), np.ones([2, 1]), verbose=0).epoch == [0]  # would be refused as made in a graph


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model"])
@pytest.mark.parametrize("refused", [True, False])
def test_loaders_of_every_format_ask_for_lambdas(name, refused, tmp_path):
    """Loading an .h5 file or a SavedModel would run the bytecode of a Lambda layer, whoever wrote it."""
    keras.Sequential([keras.layers.Lambda(lambda x: x + 1.0, input_shape=(2,))]).save(tmp_path / name)
    lambdas = private_tf_keras.LoadedLambdas(refused)
    with lambdas.scope():
        try:
            model = keras.models.load_model(tmp_path / name, compile=False)
        except ValueError:
            model = None
    assert lambdas.found
    loaded = model is not None and isinstance(model.layers[0], keras.layers.Lambda)
    assert loaded is not refused
    keras.Sequential([keras.layers.Dense(1, input_shape=(2,))]).save(tmp_path / f"plain-{name}")
    lambdas = private_tf_keras.LoadedLambdas(refused)
    with lambdas.scope():
        keras.models.load_model(tmp_path / f"plain-{name}", compile=False)
    assert not lambdas.found


def test_the_class_of_functional_models():
    """A functional model could not be told from one of the user's class, whose call() may do more than its layers."""
    features = keras.Input([2])
    assert type(keras.Model(features, features)) is private_tf_keras.functional_class()


def test_the_layer_calls_of_a_functional_model():
    """Models could be neither trained over cached features nor recomputed: both take them apart at their calls."""
    features = keras.Input([2])
    model = keras.Model(features, keras.layers.Dense(1, name="second")(keras.layers.Dense(3, name="first")(features)))
    nodes = private_tf_keras.nodes_by_depth(model)
    assert [node.layer.name for depth in (1, 0) for node in nodes[depth]] == ["first", "second"]
    assert nodes[2][0].is_input


def test_losses_that_are_functions():
    """Copies of models would silently lose the functions passed to add_loss()."""
    layer = keras.layers.Dense(1, kernel_regularizer="l2")
    layer.build((None, 1))
    layer.add_loss(lambda: tf.reduce_sum(layer.kernel))
    assert len(private_tf_keras.losses_without_inputs(layer)) == 2


def test_random_layers_draw_from_another_source():
    """A resumed training would drop other values than an unbroken one."""

    class Source:
        def __init__(self, value):
            self.value = value

        def uniform(self, shape, minval=0, maxval=None, dtype=tf.float32):
            return tf.fill(shape, tf.cast(self.value, dtype))

    model = keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dropout(0.5, seed=3), keras.layers.Dense(1)])
    generators = private_tf_keras.random_generators(model.layers)
    assert list(map(private_tf_keras.layer_seed, generators)) == [None, 3]
    ones = tf.ones([1, 100])
    with private_tf_keras.drawing_from(generators, [Source(0.9), Source(0.1)]):
        assert model.layers[0](ones, training=True).numpy().tolist() == [[2.0] * 100]
        assert model.layers[1](ones, training=True).numpy().tolist() == [[0.0] * 100]
    for layer in model.layers[:2]:
        assert set(layer(ones, training=True).numpy().ravel()) == {0.0, 2.0}
    assert not tf.train.TrackableView.children(model.layers[0])


def test_draws_as_random_layers_have_them():
    """Dropout inside a loop would fail, or repeat its numbers in each iteration."""
    random_layers = [keras.layers.Dropout(0.5, seed=3), keras.layers.Dropout(0.5), keras.layers.RandomFlip()]
    model = keras.Sequential(random_layers)
    model(tf.zeros([1, 2, 2, 1]))
    for draw in map(private_tf_keras.own_draws, private_tf_keras.random_generators(model.layers)):
        first, second = (draw("uniform", shape=[9], maxval=2.0, dtype=tf.float64).numpy() for _ in range(2))
        assert first.dtype == np.float64 and not np.array_equal(first, second)


def test_the_counter_of_fit():
    """A TensorBoard callback would write all summaries of batches at step 0."""
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    model.fit(tf.ones([6, 1]), tf.ones([6, 1]), batch_size=2, verbose=0)
    assert int(private_tf_keras.train_counter(model)) == 3


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (keras.optimizers.SGD(0.5, momentum=0.25), {"learning_rate": 0.5}),
        (keras.optimizers.legacy.SGD(0.5, momentum=0.25), {"learning_rate": 0.5, "momentum": 0.25, "decay": 0}),
        (keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.5)), {"learning_rate": 0.5}),
        (keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.5, 10)), {}),
    ],
)
def test_hyperparameters_that_are_variables(optimizer, expected):
    """The checkpoint's rate would overwrite a newly compiled one."""
    assert {name: float(value) for name, value in private_tf_keras.hyperparameters(optimizer).items()} == expected


def test_checkpoints_have_what_an_optimizer_tracks_after_the_first():
    """A resumed training would start with the loss scale of the first step, and drop updates."""
    optimizer = keras.optimizers.Adam()
    tf.train.TrackableView.children(optimizer)
    scaled = keras.mixed_precision.LossScaleOptimizer(optimizer)
    assert "loss_scale" not in tf.train.TrackableView.children(scaled)
    private_tf_keras.save_all_parts(optimizer)
    scaled.build([tf.Variable(1.0)])
    assert {"loss_scale", "_momentums", "_variables"} <= tf.train.TrackableView.children(scaled).keys()


def test_a_compiled_nadam_matches_an_eager_one_and_resumes_alike(tmp_path):
    """Each variable's update would multiply the product of momenta again, and a checkpoint would lack it."""

    def train(name, steps, path=None, complete=False):
        nadam, variables = keras.optimizers.Nadam(0.1), [tf.Variable(1.0), tf.Variable(2.0)]
        private_tf_keras.save_all_parts(nadam)
        private_tf_keras.multiply_momenta_once(nadam)
        nadam.build(variables)
        checkpoint = tf.train.Checkpoint(nadam=nadam, variables=variables)
        if path is not None:
            checkpoint.read(path).expect_partial()
        if complete:  # the checkpoint of an earlier version
            nadam._u_product.assign(1.0)
            private_tf_keras.complete_product(nadam)
        step = tf.function(lambda: nadam.apply_gradients([(each * 2, each) for each in variables]))
        for _ in range(steps):
            step()
        return [each.numpy() for each in variables], checkpoint.write(str(tmp_path / name))

    eager, variables = keras.optimizers.Nadam(0.1), [tf.Variable(1.0), tf.Variable(2.0)]
    for _ in range(6):
        eager.apply_gradients([(each * 2, each) for each in variables])
    whole, _ = train("whole", 6)
    np.testing.assert_allclose(whole, [each.numpy() for each in variables], atol=1e-6)
    _, path = train("half", 3)
    assert train("resumed", 3, path)[0] == whole
    np.testing.assert_allclose(train("completed", 3, path, complete=True)[0], whole, atol=1e-6)
