"""Each private name of TensorFlow and Keras, used as in the package; docstrings say what breaks without it.

The file needs nothing but TensorFlow, tf_keras and this package, so that it can run alone on any TensorFlow.
"""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.session import private_names

v1 = tf.compat.v1

_CPU = tf.config.list_physical_devices("CPU")[0]
if not tf.config.get_logical_device_configuration(_CPU):
    tf.config.set_logical_device_configuration(_CPU, [tf.config.LogicalDeviceConfiguration()] * 2)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def two_replicas():
    # Not the default reduction: its collective ops would meet those of other strategies of the process.
    reduction = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduction)


def test_eager_mode_inside_a_v1_graph(graph):
    """Hooks run in v1 graphs: from there no Keras step could run, no checkpoint of a Keras model be saved."""
    with private_names.eager_mode():
        assert tf.constant(3).numpy() == 3
    assert not tf.executing_eagerly()


def test_hooks_read_the_global_step_by_one_tensor(graph):
    """The session of a Keras run would compute it in the hook graph at each step, or answer with another step."""
    step = v1.train.create_global_step()
    read = private_names.global_step_read()
    operations = len(graph.get_operations())
    for hook in [v1.train.StopAtStepHook(last_step=2), v1.train.StepCounterHook()]:
        hook.begin()
        assert hook.before_run(None).fetches is read
    assert len(graph.get_operations()) == operations
    with v1.Session() as session:
        session.run(v1.assign(step, 5))
        assert session.run(read) == 5


def test_an_op_waits_for_an_op_that_it_was_created_without(graph):
    """A hook would fetch the global step of a model_fn after its update in some steps."""
    read, update = v1.placeholder(tf.int64, [], name="read"), tf.constant(1)
    private_names.run_after(update.op, [read.op])
    assert update.op.control_inputs == [read.op]
    with v1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="feed a value for .*'read'"):
        session.run(update)


def test_random_ops_after_the_read_of_the_global_step_have_the_seeds_that_tf_estimator_gave(graph):
    """A model_fn would draw other initial weights than under tf.estimator: a seed is the number of ops before it."""
    v1.train.create_global_step()
    private_names.global_step_read()
    assert len(graph.get_operations()) == 10


def test_the_default_reduction_of_a_mirrored_strategy_is_recognised(two_replicas):
    """In a v1 graph it hangs on CPU devices; a strategy that has it is replaced there."""
    assert private_names.reduces_by_collectives(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    assert not private_names.reduces_by_collectives(two_replicas)


def test_v1_optimizers_divide_the_loss_by_the_replicas_and_note_it(two_replicas):
    """Replicas' gradients would be summed and not averaged, or the sum of their losses reported and not the mean."""
    strategy = two_replicas

    def gradient():
        weight = v1.get_variable("weight", [])
        (gradient, _), *_ = v1.train.GradientDescentOptimizer(1.0).compute_gradients(6 * weight, [weight])
        return gradient

    with tf.Graph().as_default(), strategy.scope(), private_names.averaging_losses(strategy):
        assert v1.distribute.get_loss_reduction() == tf.distribute.ReduceOp.MEAN
        assert not private_names.is_loss_averaged()
        gradients = strategy.extended.call_for_each_replica(gradient)
        assert private_names.is_loss_averaged()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(strategy.experimental_local_results(gradients)) == (3, 3)


def test_a_loss_that_we_divide_is_noted_as_v1_optimizers_note_it(graph):
    """A model_fn that trains with a Keras optimizer would report the sum of the replicas' losses, not the mean."""
    private_names.set_loss_averaged()
    assert private_names.is_loss_averaged()
    weight = v1.get_variable("weight", [])
    v1.train.GradientDescentOptimizer(1.0).compute_gradients(6 * weight, [weight])  # on one replica
    assert not private_names.is_loss_averaged()


def test_the_classes_of_feature_columns():
    """Canned estimators could not refuse what is no feature column, and what needs an embedding around it."""
    numeric = tf.feature_column.numeric_column("x")
    categorical = tf.feature_column.categorical_column_with_identity("x", 3)
    for column in [numeric, categorical]:
        assert isinstance(column, private_names.feature_column_class())
    assert isinstance(numeric, private_names.dense_column_class())
    assert not isinstance(categorical, private_names.dense_column_class())


def test_feature_columns_make_tensors_and_variables_in_the_variable_scope(graph):
    """Canned estimators would have no inputs, or their checkpoints other names than tf.estimator's."""
    column = tf.feature_column.embedding_column(tf.feature_column.categorical_column_with_identity("x", 3), 2)
    cache, state = private_names.column_cache({"x": tf.constant([[1], [2]])}), private_names.column_state()
    with v1.variable_scope("scope"):
        column.create_state(state)
    assert column.get_dense_tensor(cache, state).shape == (2, 2)
    assert [variable.name for variable in v1.trainable_variables()] == ["scope/embedding_weights:0"]


def test_v1_layers_make_their_variables_in_the_variable_scope(graph):
    """Canned DNNs could not be built, or their checkpoints would have other names than tf.estimator's."""
    with v1.variable_scope("scope"):
        net = private_names.v1_dense_class()(2, name="dense")(tf.ones([1, 3]))
        private_names.v1_batch_normalization_class()(name="batchnorm")(net, training=True)
    names = ["dense/kernel", "dense/bias", "batchnorm/gamma", "batchnorm/beta"]
    assert [variable.name for variable in v1.trainable_variables()] == [f"scope/{name}:0" for name in names]


def test_the_schedule_of_a_keras_optimizer():
    """In a model_fn the optimizer's legacy twin would train at the first learning rate of the schedule for good."""
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    assert private_names.learning_rate_or_schedule(keras.optimizers.Adam(schedule)) is schedule
    assert float(private_names.learning_rate_or_schedule(keras.optimizers.Adam(0.25))) == 0.25


def test_the_step_variable_of_a_legacy_optimizer_is_replaced():
    optimizer = keras.optimizers.legacy.Adam()
    assert private_names.legacy_step_variable(optimizer) is None
    for step in (tf.Variable(1), tf.Variable(2)):
        private_names.set_legacy_step_variable(optimizer, step)
        assert optimizer.iterations is step is private_names.legacy_step_variable(optimizer)


def test_a_legacy_optimizer_makes_its_variables_before_the_first_update():
    """Checkpoints of tf.estimator could not be read into a model with one: the slots would not be there yet."""
    optimizer = keras.optimizers.legacy.Adam()
    variable = tf.Variable([1.0])
    private_names.build_legacy_optimizer(optimizer, [variable])
    assert optimizer.get_slot(variable, "m").shape == [1]
    assert len(optimizer.weights) == 3  # with the count of updates


def test_values_of_variables_that_never_come_are_forgotten(tmp_path):
    """Each restore of a checkpoint would leave 18 kB behind."""

    def build():
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
        model.compile("adam", "mse")
        return model

    trained, step = build(), tf.Variable(1)
    trained.optimizer.build(trained.trainable_variables)
    path = tf.train.Checkpoint(root=trained, step=step).save(str(tmp_path / "c"))
    model = build()
    tf.train.Checkpoint(root=model, step=step).read(path)
    parts = tf.train.TrackableView(model).descendants()
    assert len([part for part in parts if part._deferred_dependencies]) > 1  # of the model and of its optimizer
    private_names.forget_values_to_come(model)
    assert not [part for part in parts if part._deferred_dependencies]


def test_exclusions_from_weight_decay():
    """A copy of a model would decay weights that the model's optimizer leaves alone."""
    optimizer, by_name, by_variable = (keras.optimizers.AdamW() for _ in range(3))
    by_name.exclude_from_weight_decay(var_names=["bias"])
    by_variable.exclude_from_weight_decay(var_list=[tf.Variable(1.0)])
    assert private_names.weight_decay_exclusions(optimizer) == ([], [])
    assert private_names.weight_decay_exclusions(keras.optimizers.legacy.Adam()) == ([], [])
    assert private_names.weight_decay_exclusions(by_name) == ([], ["bias"])
    variables, names = private_names.weight_decay_exclusions(by_variable)
    assert len(variables) == 1
    assert names == []


def test_exclusions_from_weight_decay_kept_elsewhere_are_an_error(monkeypatch):
    """They would be lost, see above: an optimizer without the attributes is one that excludes nothing."""

    def exclude(self, var_list=None, var_names=None):
        self.excluded = var_names

    monkeypatch.setattr(keras.optimizers.Optimizer, "exclude_from_weight_decay", exclude)
    with pytest.raises(AttributeError, match="sets \\['excluded'\\]"):
        private_names.weight_decay_exclusions(keras.optimizers.Adam())


def test_a_copy_of_a_v1_optimizer_has_the_settings_and_no_variables():
    """A copy of a model compiled with one would update the model's own slots, or save and restore them."""

    def fitted(optimizer):
        model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(optimizer, "mse")
        model.fit(tf.constant([[1.0]]), tf.constant([[0.0]]), verbose=0)
        return model

    given = v1.train.MomentumOptimizer(0.25, 0.9)
    model = fitted(given)
    copied = private_names.copy_v1_optimizer(given)
    assert type(copied) is v1.train.MomentumOptimizer
    assert copied.variables() == []
    again = fitted(copied)
    assert again.get_weights() == model.get_weights()
    assert len(copied.variables()) == len(given.variables()) == 2
    assert not {id(slot) for slot in copied.variables()} & {id(slot) for slot in given.variables()}


def test_a_v1_optimizer_whose_state_is_elsewhere_is_an_error():
    """The copy would share it, see above."""
    optimizer = v1.train.MomentumOptimizer(0.25, 0.9)
    keras.Sequential([keras.layers.Dense(1)]).compile(optimizer, "mse")
    del vars(optimizer)["_slots"]
    with pytest.raises(AttributeError, match="_slots"):
        private_names.copy_v1_optimizer(optimizer)


def test_autograph_in_a_step_that_is_traced_without_it(two_replicas):
    """A train_step with `if tensor:` in it could not be traced, or Keras' optimizers not reduce gradients in it."""
    strategy = two_replicas
    with strategy.scope():
        weight = tf.Variable(8.0)
        optimizer = keras.optimizers.SGD(0.5)

    def step(limit):
        if weight > limit:  # noqa: SIM108, AutoGraph converts the statement
            gradient = 1.0
        else:
            gradient = 0.0
        optimizer.apply_gradients([(gradient, weight)])
        return weight.read_value()

    converted = private_names.with_autograph(step)
    run = tf.function(lambda limit: strategy.run(converted, args=(limit,)), autograph=False)
    for limit, expected in [(9.0, 8.0), (7.0, 7.0)]:
        values = strategy.experimental_local_results(run(tf.constant(limit)))
        assert [float(value) for value in values] == [expected, expected]


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
        found.append((private_names.last_metric_results([unused, accuracy]), result))
        return result

    assert run().numpy() == 3
    (results, result), *_ = found
    assert [value is result for value in results] == [True]


def test_metrics_that_do_not_keep_their_results_are_an_error(monkeypatch):
    """See above: a metric without the attribute is one whose result has not been asked for."""
    check = private_names.last_metric_results.__globals__["_check_that_metrics_keep_results"]
    check.cache_clear()
    keep = keras.metrics.Metric.__setattr__

    def forget(self, name, value):
        if name != "_call_result":
            keep(self, name, value)

    monkeypatch.setattr(keras.metrics.Metric, "__setattr__", forget)
    with pytest.raises(AttributeError, match="_call_result"):
        private_names.last_metric_results([])


def test_the_arguments_of_compile_as_they_were_given():
    """A model compiled with a lambda, or with a function of the user's, could not be copied."""
    loss = lambda labels, predictions: tf.reduce_mean(predictions)  # noqa: E731, as users have it
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", loss, metrics=["mae"])
    arguments = private_names.compile_arguments(model)
    assert arguments["loss"] is loss
    assert arguments["metrics"] == ["mae"]
    keras.Sequential([keras.layers.Dense(1)]).compile(**arguments)


def test_a_model_of_a_graph_tells_how_it_was_compiled_and_whether_it_has_values(graph):
    """A model of a program of TensorFlow 1 could not be copied, or would begin with other weights than it was given."""
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse", metrics=["mae"], loss_weights=[2.0])
    arguments = private_names.compile_arguments(model)
    assert (arguments["loss"], arguments["metrics"], arguments["loss_weights"]) == ("mse", ["mae"], [2.0])
    assert "weighted_metrics" in arguments
    assert not any(map(private_names.is_initialized_by_keras, model.weights))
    model.set_weights([np.ones([1, 1]), np.ones([1])])
    assert all(map(private_names.is_initialized_by_keras, model.weights))
    with private_names.eager_mode(), pytest.raises(AttributeError):
        private_names.compile_arguments(keras.Sequential())


def test_classes_of_keras_are_those_of_eager_mode_and_then_a_graphs_again(graph):
    """Once a layer was made in a v1 graph, an Estimator's copies would use the TensorFlow 1 engine."""
    of_graph = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    with private_names.eager_classes(), private_names.eager_mode():
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    with private_names.eager_classes(), private_names.eager_mode():
        model.compile("sgd", "mse")
        assert model.fit(tf.ones([2, 2]), tf.ones([2, 1]), verbose=0).epoch == [0]
    of_graph.compile("sgd", "mse")
    assert of_graph.fit(np.ones([2, 2]), np.ones([2, 1]), verbose=0).epoch == [0]  # would be refused as made in a graph


def test_v2_behavior_is_on():
    """Keras would be asked for metrics by names that it does not give them."""
    assert private_names.v2_behavior()


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model"])
@pytest.mark.parametrize("refused", [True, False])
def test_loaders_of_every_format_ask_for_lambdas(name, refused, tmp_path):
    """Loading an .h5 file or a SavedModel would run the bytecode of a Lambda layer, whoever wrote it."""
    keras.Sequential([keras.layers.Lambda(lambda x: x + 1.0, input_shape=(2,))]).save(tmp_path / name)
    with private_names.LoadedLambdas(refused) as lambdas:
        try:
            model = keras.models.load_model(tmp_path / name, compile=False)
        except ValueError:
            model = None
    assert lambdas.found
    loaded = model is not None and isinstance(model.layers[0], keras.layers.Lambda)
    assert loaded is not refused
    keras.Sequential([keras.layers.Dense(1, input_shape=(2,))]).save(tmp_path / f"plain-{name}")
    with private_names.LoadedLambdas(refused) as lambdas:
        keras.models.load_model(tmp_path / f"plain-{name}", compile=False)
    assert not lambdas.found


def test_the_class_of_functional_models():
    """A functional model could not be told from one of the user's class, whose call() may do more than its layers."""
    features = keras.Input([2])
    assert type(keras.Model(features, features)) is private_names.functional_class()


def test_the_layer_calls_of_a_functional_model():
    """Models could be neither trained over cached features nor recomputed: both take them apart at their calls."""
    features = keras.Input([2])
    model = keras.Model(features, keras.layers.Dense(1, name="second")(keras.layers.Dense(3, name="first")(features)))
    nodes = private_names.nodes_by_depth(model)
    assert [node.layer.name for depth in (1, 0) for node in nodes[depth]] == ["first", "second"]
    assert nodes[2][0].is_input


def test_the_masks_that_layers_give():
    """A model whose frozen layers give a mask would be trained over cached features without it, on padding, too."""
    steps = tf.constant([[[1.0], [0.0]]])
    masked = keras.layers.Masking()(steps)
    assert private_names.keras_mask(masked).numpy().tolist() == [[True, False]]
    assert private_names.keras_mask(keras.layers.Flatten()(steps)) is None


def test_masks_kept_elsewhere_are_an_error(monkeypatch):
    """They would be lost, see above: a tensor without the attribute has no mask."""
    check = private_names.keras_mask.__globals__["_check_that_layers_attach_masks"]
    check.cache_clear()
    monkeypatch.setattr(keras.layers.Masking, "compute_mask", lambda self, inputs, mask=None: None)
    monkeypatch.setattr(keras.layers.Masking, "call", lambda self, inputs: inputs)
    with pytest.raises(AttributeError, match="_keras_mask"):
        private_names.keras_mask(tf.constant(1.0))


def test_ops_that_do_not_compute_the_same_each_time():
    """Frozen layers that draw random numbers, or change state, would be computed once and then read from a cache."""
    assert private_names.is_stateful_op("RandomUniform")
    assert not private_names.is_stateful_op("MatMul")


def test_losses_that_are_functions():
    """Copies of models would silently lose the functions passed to add_loss()."""
    layer = keras.layers.Dense(1, kernel_regularizer="l2")
    layer.build((None, 1))
    layer.add_loss(lambda: tf.reduce_sum(layer.kernel))
    assert len(private_names.losses_without_inputs(layer)) == 2


def test_the_graph_around_branches():
    """Random layers that draw in a branch, such as RandomCrop, would start their numbers again in each process."""
    around = {}

    @tf.function(autograph=False)
    def step(number):
        def note(key):
            around[key] = private_names.graph_around_branches(tf.compat.v1.get_default_graph())
            return number + 1

        note("step")
        tf.cond(number > 0, lambda: tf.cond(number > 1, lambda: note("branch"), lambda: number), lambda: number)
        return tf.while_loop(lambda _: True, lambda _: (note("loop"),), [number], maximum_iterations=1)

    step(tf.constant(1))
    assert around["branch"] is around["step"] is not around["loop"]


def test_random_layers_draw_from_another_source():
    """A resumed training would drop other values than an unbroken one."""

    class Source:
        def __init__(self, value):
            self.value = value

        def uniform(self, shape, minval=0, maxval=None, dtype=tf.float32):
            return tf.fill(shape, tf.cast(self.value, dtype))

    model = keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dropout(0.5, seed=3), keras.layers.Dense(1)])
    generators = private_names.random_generators(model.layers)
    assert list(map(private_names.layer_seed, generators)) == [None, 3]
    ones = tf.ones([1, 100])
    with private_names.drawing_from(generators, [Source(0.9), Source(0.1)]):
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
    for draw in map(private_names.own_draws, private_names.random_generators(model.layers)):
        first, second = (draw("uniform", shape=[9], maxval=2.0, dtype=tf.float64).numpy() for _ in range(2))
        assert first.dtype == np.float64 and not np.array_equal(first, second)


@pytest.fixture
def keras3():
    return pytest.importorskip("keras")


@pytest.fixture
def keras3_model(keras3):
    layers = keras3.layers
    base = keras3.Sequential([keras3.Input((2,)), layers.Dense(3), layers.Dropout(0.5)])
    features = keras3.Input((2,))
    model = keras3.Model(features, layers.Dense(1)(base(features)))
    model.compile(keras3.optimizers.SGD(0.1, momentum=0.9), "mse", metrics=["mae"])
    return model


def test_the_layers_and_the_random_generators_of_a_keras_3_model(keras3_model):
    """Layers in lists would be missing from checkpoints, and Dropout would continue with different masks."""
    (base,) = [layer for layer in private_names.sublayers(keras3_model) if private_names.sublayers(layer)]
    (dropout,) = [layer for layer in private_names.sublayers(base) if private_names.seed_states(layer)]
    (state,) = private_names.seed_states(dropout)
    assert tuple(state.shape) == (2,)


def test_the_arguments_of_a_keras_3_metrics_function(keras3):
    """A copy of CosineSimilarity(axis=0) would measure along the last axis."""
    assert private_names.function_arguments(keras3.metrics.CosineSimilarity(axis=0)) == {"axis": 0}


def test_the_class_of_functional_keras_3_models(keras3, keras3_model):
    """A functional model could not be told from one of the user's class, and would be cloned by its configuration."""
    assert type(keras3_model) is private_names.keras3_functional_class()
    assert not isinstance(keras3.Sequential(), private_names.keras3_functional_class())


def test_a_step_of_a_keras_3_model_on_symbols_makes_its_variables(keras3):
    """Variables made in the first step would have it traced twice, and on replicas they would be made several times."""
    model = keras3.Sequential([keras3.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    data = keras3.KerasTensor((None, 2)), keras3.KerasTensor((None, 1))
    logs = private_names.compute_output_spec(model.test_step, data)
    assert logs.keys() == {"loss", "mae"}
    assert model.built and all(metric.variables for metric in model.metrics)


def test_the_parts_of_a_keras_3_optimizer(keras3_model):
    """A model's variables would have the names of the optimizer's list in checkpoints, and models without it others."""
    keras3_model.optimizer.build(keras3_model.trainable_variables)
    parts = private_names.parts_of_optimizer(keras3_model.optimizer)
    assert {"_iterations", "_learning_rate", "_variables"} <= parts.keys()
    own = {id(variable) for variable in keras3_model.trainable_variables}
    for part in parts.values():
        assert not own & set(map(id, tf.train.TrackableView.children(part).values()))


def test_the_own_variables_of_a_keras_3_optimizer_are_where_keras_has_them(keras3, keras3_model):
    """A model with a schedule, which has no variable, would otherwise read its slots from the places beside them."""
    for rate in (0.1, keras3.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)):
        optimizer = keras3.optimizers.SGD(rate, momentum=0.9)
        optimizer.build(keras3_model.trainable_variables)
        listed = private_names.parts_of_optimizer(optimizer)["_variables"]
        parts = tf.train.TrackableView.children(listed)
        expected = enumerate(optimizer.variables)
        assert parts == {str(n): each for n, each in expected if not each.path.endswith("learning_rate")}


def test_a_keras_3_model_of_the_user_may_have_lambdas(keras3):
    """A Lambda layer of the user's own model could not be copied."""
    layer = keras3.layers.Lambda(lambda x: x + 1)
    with private_names.deserialized_lambdas():
        copy = keras3.layers.Lambda.from_config(layer.get_config())
    assert copy(tf.ones([1])) == 2.0


def test_exclusions_from_weight_decay_in_keras_3(keras3):
    """A copy of the optimizer would decay what the user has excluded."""
    optimizer = keras3.optimizers.AdamW()
    assert private_names.keras3_weight_decay_exclusions(optimizer)[1] == []
    weight = keras3.Variable([1.0])
    optimizer.exclude_from_weight_decay(var_list=[weight], var_names=["bias"])
    variables, names = private_names.keras3_weight_decay_exclusions(optimizer)
    assert len(variables) == 1
    assert names == ["bias"]


def test_the_loss_of_a_keras_3_model_is_added_to_its_metric(keras3_model):
    """With accumulate_steps, the loss that is logged would stay 0."""
    ones = tf.ones([4, 2]), tf.ones([4, 1])
    loss = private_names.compute_loss(keras3_model, *ones, tf.zeros([4, 1]), None, training=True)
    (metric,) = [metric for metric in keras3_model.metrics if metric.name == "loss"]
    assert loss == metric.result() == 1.0


def test_the_rate_or_the_schedule_of_a_keras_3_optimizer(keras3):
    """The learning rate could not be logged, and a copy would have a schedule made from a configuration."""
    schedule = keras3.optimizers.schedules.CosineDecay(0.1, 10)
    assert private_names.learning_rate_or_schedule(keras3.optimizers.SGD(schedule)) is schedule
    assert float(private_names.learning_rate_or_schedule(keras3.optimizers.SGD(0.5))) == 0.5


def test_the_arguments_of_a_keras_3_compile_as_they_were_given(keras3):
    """A loss that is a lambda would be lost in a copy."""
    model = keras3.Sequential([keras3.layers.Dense(1)])
    loss = lambda y, p: y - p  # noqa: E731
    model.compile("sgd", loss)
    assert private_names.compile_arguments(model)["loss"] is loss


def test_the_names_of_a_functions_arguments():
    """Old code that imports fn_args from tensorflow_estimator.python.estimator.util would fail."""

    class Model:
        def call(self, features, *, mode):
            pass

    assert private_names.fn_args(Model().call) == ("features",)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_modules_that_tf_compat_wraps(version):
    """`import tensorflow._api.v2.compat.v1 as tf`, which editors write, would have no tf.estimator after install()."""
    module = private_names.unwrapped_compat_module(version)
    assert module.Graph is getattr(tf.compat, version).Graph
    assert module is not getattr(tf.compat, version)


def test_a_function_of_any_arguments_shows_the_signature_of_another():
    """Layers that are placed on a device would no longer be told whether they train, nor get their masks."""

    class Placed(keras.layers.Dropout):
        def call(self, *args, **kwargs):
            return kwargs["training"]

        call = private_names.as_wrapper(call, keras.layers.Dropout.call)

    assert Placed(0.5)(tf.constant([1.0]), training=True) is True


def test_the_counter_of_fit():
    """A TensorBoard callback would write all summaries of batches at step 0."""
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    model.fit(tf.ones([6, 1]), tf.ones([6, 1]), batch_size=2, verbose=0)
    assert int(private_names.train_counter(model)) == 3


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
    assert {name: float(value) for name, value in private_names.hyperparameters(optimizer).items()} == expected


def test_values_that_checkpoints_leave_out_and_take_all_the_same(tmp_path):
    """`load_weights` would overwrite the compiled learning rate; earlier checkpoints would lose theirs."""
    module, other = tf.Module(), tf.Module()
    module.rate, other.rate = tf.Variable(1.0), tf.Variable(2.0)
    whole = tf.train.Checkpoint(module).write(str(tmp_path / "whole"))
    private_names.leave_out_of_checkpoints(module, [module.rate])
    partial = tf.train.Checkpoint(module).write(str(tmp_path / "partial"))
    tf.train.Checkpoint(other).read(partial).assert_existing_objects_matched()
    assert float(other.rate) == 2
    module.rate.assign(3.0)
    tf.train.Checkpoint(module).read(whole).expect_partial()
    assert float(module.rate) == 3
    with private_names.taking_all_of_checkpoints(module):
        tf.train.Checkpoint(module).read(whole)
    assert float(module.rate) == 1


@pytest.mark.parametrize("scales_loss", [False, True])
def test_a_checkpoint_is_read_without_the_slots_of_an_optimizer(scales_loss, tmp_path):
    """Slots of other frozen layers would be read by their place in the list, into variables of others."""
    saved, read = (keras.Sequential([keras.layers.Dense(1, input_shape=(1,))]) for _ in range(2))
    for model, value in ((saved, 1), (read, 2)):
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(model.trainable_variables)
        wrapped = keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=2**value)
        model.compile(wrapped if scales_loss else optimizer, "mse")
        for variable in (*model.weights, *optimizer.variables):
            variable.assign(tf.fill(variable.shape, tf.cast(value, variable.dtype)))
    path = tf.train.Checkpoint(saved).write(str(tmp_path / "saved"))
    tf.train.Checkpoint(private_names.without_slots(read)).read(path).expect_partial()
    inner = getattr(read.optimizer, "inner_optimizer", read.optimizer)
    assert {float(weight) for weight in map(tf.squeeze, read.weights)} == {1.0} and int(inner.iterations) == 1
    assert [float(tf.squeeze(variable)) for variable in inner.variables][1:] == [2.0, 2.0]  # after the iterations
    assert not scales_loss or float(read.optimizer.loss_scale) == 2
    with pytest.raises(AttributeError, match="does not keep its variables as _variables"):
        read.optimizer = tf.Module()
        private_names.without_slots(read)


@pytest.mark.parametrize("rate", [0.25, keras.optimizers.schedules.ExponentialDecay(0.25, 1, 0.5)])
def test_learning_rates_that_a_checkpoint_need_not_have(tmp_path, rate):
    """Training could not continue with a schedule instead of a rate, nor evaluation run without its schedule."""
    optimizer = keras.optimizers.SGD(rate)
    (name,) = {"_learning_rate", "_current_learning_rate"} & tf.train.TrackableView.children(optimizer).keys()
    without = tf.train.Checkpoint(_iterations=optimizer.iterations).write(str(tmp_path / "without"))
    with pytest.raises(AssertionError, match="learning_rate"):
        tf.train.Checkpoint(optimizer).read(without).assert_existing_objects_matched()
    with private_names.without_rate_and_product(optimizer):
        tf.train.Checkpoint(optimizer).read(without).assert_existing_objects_matched()
    assert name in tf.train.TrackableView.children(optimizer)


def test_a_compiled_nadam_gives_the_numbers_of_an_eager_one_and_continues_with_them(tmp_path):
    """Each variable's update would multiply the product of momenta again, and a checkpoint would lack it."""

    def train(name, steps, path=None, complete=False):
        nadam, variables = keras.optimizers.Nadam(0.1), [tf.Variable(1.0), tf.Variable(2.0)]
        private_names.multiply_momenta_once(nadam)
        tf.train.Checkpoint(nadam)
        nadam.build(variables)
        checkpoint = tf.train.Checkpoint(nadam=nadam, variables=variables)
        if path is not None:
            checkpoint.read(path).expect_partial()
        if complete:  # the checkpoint of an earlier version
            nadam._u_product.assign(1.0)
            private_names.complete_product(nadam)
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


def test_the_timer_of_a_saver_hook(tmp_path):
    """Workers would not save at the same step, and so wait for each other for ever."""

    class Never(v1.train.SecondOrStepTimer):
        def should_trigger_for_step(self, step):
            return False

    hook = v1.train.CheckpointSaverHook(str(tmp_path), save_steps=1)
    private_names.set_timer(hook, Never(every_steps=1))
    hook.after_run(v1.train.SessionRunContext(None, None), v1.train.SessionRunValues(5, None, None))  # saves nothing


def test_the_listeners_of_a_saver_hook(tmp_path):
    """Listeners given to train() would not be called if the user also passes a CheckpointSaverHook."""
    begun = []

    class Listener(v1.train.CheckpointSaverListener):
        def begin(self):
            begun.append(self)

    first, second = Listener(), Listener()
    with tf.Graph().as_default():
        v1.train.create_global_step()
        hook = v1.train.CheckpointSaverHook(str(tmp_path), save_steps=1, listeners=[first])
        assert private_names.listeners(hook) == [first]
        private_names.set_listeners(hook, [first, second])
        hook.begin()
    assert begun == [first, second]


def test_the_writer_of_a_directory_for_two_spellings(tmp_path, monkeypatch):
    """A user's hook with a relative output_dir would write over the events of the training."""
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        private_names.share_event_writer(str(tmp_path / "run"), "run")
        assert v1.summary.FileWriterCache.get("run") is v1.summary.FileWriterCache.get(str(tmp_path / "run"))


def test_the_last_step_of_a_stop_hook():
    """A training that has reached its last step before would make one more."""
    assert private_names.last_step(v1.train.StopAtStepHook(last_step=7)) == 7
    assert private_names.last_step(v1.train.StopAtStepHook(num_steps=7)) is None
