"""Each private name of TensorFlow, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import pytest
import tensorflow as tf

from estimator_train._engine.graph import private_tensorflow

v1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def two_replicas():
    # Not the default reduction: its collective ops would meet those of other strategies of the process.
    reduction = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduction)


def test_an_op_waits_for_an_op_that_it_was_created_without(graph):
    """A hook would fetch the global step of a model_fn after its update in some steps."""
    read, update = v1.placeholder(tf.int64, [], name="read"), tf.constant(1)
    private_tensorflow.run_after(update.op, [read.op])
    assert update.op.control_inputs == [read.op]
    with v1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="feed a value for .*'read'"):
        session.run(update)


def test_the_default_reduction_of_a_mirrored_strategy_is_recognised(two_replicas):
    """In a v1 graph it hangs on CPU devices; a strategy that has it is replaced there."""
    assert private_tensorflow.reduces_by_collectives(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    assert not private_tensorflow.reduces_by_collectives(two_replicas)


def test_v1_optimizers_divide_the_loss_by_the_replicas_and_note_it(two_replicas):
    """Replicas' gradients would be summed and not averaged, or the sum of their losses reported and not the mean."""
    strategy = two_replicas

    def gradient():
        weight = v1.get_variable("weight", [])
        (gradient, _), *_ = v1.train.GradientDescentOptimizer(1.0).compute_gradients(6 * weight, [weight])
        return gradient

    with tf.Graph().as_default(), strategy.scope(), private_tensorflow.averaging_losses(strategy):
        assert v1.distribute.get_loss_reduction() == tf.distribute.ReduceOp.MEAN
        assert not private_tensorflow.is_loss_averaged()
        gradients = strategy.extended.call_for_each_replica(gradient)
        assert private_tensorflow.is_loss_averaged()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(strategy.experimental_local_results(gradients)) == (3, 3)


def test_a_loss_that_we_divide_is_noted_as_v1_optimizers_note_it(graph):
    """A model_fn that trains with a Keras optimizer would report the sum of the replicas' losses, not the mean."""
    private_tensorflow.set_loss_averaged()
    assert private_tensorflow.is_loss_averaged()
    weight = v1.get_variable("weight", [])
    v1.train.GradientDescentOptimizer(1.0).compute_gradients(6 * weight, [weight])  # on one replica
    assert not private_tensorflow.is_loss_averaged()


def test_the_reduction_of_a_loss_says_how_optimizers_join_gradients(two_replicas):
    """The gradients of a head of the user's would be averaged over the replicas, though its loss is a sum."""
    with tf.Graph().as_default(), two_replicas.scope(), private_tensorflow.averaging_losses(two_replicas):
        joined = []
        for reduction in (v1.losses.Reduction.SUM, v1.losses.Reduction.SUM_OVER_BATCH_SIZE):
            private_tensorflow.set_loss_reduction(reduction)
            joined.append(v1.distribute.get_loss_reduction())
    assert joined == [tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN]


def test_a_train_op_is_where_loaders_of_a_saved_model_look_for_it(graph, tmp_path):
    """Whoever loads an exported training graph could not train it."""
    weight = v1.get_variable("weight", initializer=1.0)
    builder = v1.saved_model.Builder(str(tmp_path / "saved"))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        private_tensorflow.add_train_op(builder, weight.assign_add(1.0).op)
        builder.add_meta_graph_and_variables(session, ["train"])
    builder.save()
    with v1.Session(graph=tf.Graph()) as session:
        v1.saved_model.load(session, ["train"], str(tmp_path / "saved"))
        (train_op,) = v1.get_collection("saved_model_train_op")
        session.run(train_op)
        assert session.run("weight/Read/ReadVariableOp:0") == 2


def test_a_scaffold_feeds_more_to_its_init_op(graph):
    """Weights that a model_fn sets in Keras models would not be initial values."""
    variable, other = tf.Variable(1.0), tf.Variable(2.0)
    scaffold = v1.train.Scaffold(init_feed_dict={other.initializer.inputs[1]: 4.0})
    private_tensorflow.add_init_feeds(scaffold, {variable.initializer.inputs[1]: 3.0})
    with v1.train.MonitoredSession(v1.train.ChiefSessionCreator(scaffold)) as session:
        assert session.run([variable, other]) == [3, 4]


def test_the_settings_of_sessions_have_the_devices_of_eager_mode(graph):
    """Keras could not set the weights of a second replica on the CPU."""
    config = private_tensorflow.session_config()
    with v1.Session(config=config) as session:
        assert len(session.list_devices()) >= len(tf.config.list_logical_devices("CPU"))
    assert config is not private_tensorflow.session_config()


def test_custom_gradients_of_a_graph_are_forgotten(graph):
    """Each training with a Keras optimizer, and each graph with tf.nn.silu, would stay in memory for ever."""
    given = tf.ones([2])
    tf.gradients(tf.nn.silu(given), given)
    private_tensorflow.forget_gradients(graph)
    with pytest.raises(LookupError, match="No gradient defined for operation"):
        tf.gradients(graph.get_tensor_by_name("IdentityN:0"), given)


def test_ops_can_be_added_to_a_finalized_graph(graph):
    """A loop over steps could not be built, because sessions finalize their graph."""
    graph.finalize()
    with private_tensorflow.unfinalized(graph):
        tf.constant(1)
    assert graph.finalized and len(graph.get_operations()) == 1


def test_ops_with_a_state_are_recognised():
    """Functions that draw random numbers would run in loops, where they draw others."""
    kinds = ("RandomUniform", "ReadVariableOp", "MatMul", "no_op_of_tensorflow")
    assert [private_tensorflow.is_stateful(kind) for kind in kinds] == [True, True, False, False]


def test_an_error_of_a_callable_gets_the_op_and_where_it_was_made(graph):
    """Whoever reads the error of a step could not tell which line of the model_fn it is about."""
    fails = tf.gather([1, 2], v1.placeholder_with_default(-1, []), name="fails")
    with v1.Session() as session:
        call = session.make_callable(fails)
        plain = pytest.raises(tf.errors.InvalidArgumentError, call).value
        located = private_tensorflow.located(plain, session)
    assert plain.op is None and __file__ not in plain.message
    assert located.op is fails.op and __file__ in located.message
