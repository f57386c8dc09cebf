"""Each private name of TensorFlow, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import time

import pytest
import tensorflow as tf
import tf_keras as keras
from tensorflow.python.framework import config

from estimator_train._engine.keras import private_tensorflow

v1 = tf.compat.v1


@pytest.fixture
def two_replicas():
    # Not the default reduction: its collective ops would meet those of other strategies of the process.
    reduction = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduction)


def test_a_copy_of_a_v1_optimizer_has_the_settings_and_no_variables():
    """A copy of a model compiled with one would update the model's own slots, or save and restore them."""

    def fitted(optimizer):
        model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(optimizer, "mse")
        model.fit(tf.constant([[1.0]]), tf.constant([[0.0]]), verbose=0)
        return model

    given = v1.train.MomentumOptimizer(0.25, 0.9)
    model = fitted(given)
    copied = private_tensorflow.copy_v1_optimizer(given)
    assert type(copied) is v1.train.MomentumOptimizer
    assert copied.variables() == []
    again = fitted(copied)
    assert again.get_weights() == model.get_weights()
    assert len(copied.variables()) == len(given.variables()) == 2
    assert not {id(slot) for slot in copied.variables()} & {id(slot) for slot in given.variables()}


def test_the_free_memory_of_a_device_is_its_limit_without_what_is_used(monkeypatch):
    """Features would never stay on a GPU, or take the room that a step needs."""
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda device: {"current": 100})
    assert private_tensorflow.free_bytes(tf.zeros([]).device) == 2**28 - 100  # TensorFlow says this of every CPU


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

    converted = private_tensorflow.with_autograph(step)
    run = tf.function(lambda limit: strategy.run(converted, args=(limit,)), autograph=False)
    for limit, expected in [(9.0, 8.0), (7.0, 7.0)]:
        values = strategy.experimental_local_results(run(tf.constant(limit)))
        assert [float(value) for value in values] == [expected, expected]


def test_v2_behavior_is_on():
    """Keras would be asked for metrics by names that it does not give them."""
    assert private_tensorflow.v2_behavior()


def test_ops_that_do_not_compute_the_same_each_time():
    """Frozen layers that draw random numbers, or change state, would be computed once and then read from a cache."""
    assert private_tensorflow.is_stateful_op("RandomUniform")
    assert not private_tensorflow.is_stateful_op("MatMul")


def test_the_graph_around_branches():
    """Random layers that draw in a branch, such as RandomCrop, would start their numbers again in each process."""
    around = {}

    @tf.function(autograph=False)
    def step(number):
        def note(key):
            around[key] = private_tensorflow.graph_around_branches(tf.compat.v1.get_default_graph())
            return number + 1

        note("step")
        tf.cond(number > 0, lambda: tf.cond(number > 1, lambda: note("branch"), lambda: number), lambda: number)
        return tf.while_loop(lambda _: True, lambda _: (note("loop"),), [number], maximum_iterations=1)

    step(tf.constant(1))
    assert around["branch"] is around["step"] is not around["loop"]


def test_a_function_of_any_arguments_shows_the_signature_of_another():
    """Layers that are placed on a device would no longer be told whether they train, nor get their masks."""

    class Placed(keras.layers.Dropout):
        def call(self, *args, **kwargs):
            return kwargs["training"]

        call = private_tensorflow.as_wrapper(call, keras.layers.Dropout.call)

    assert Placed(0.5)(tf.constant([1.0]), training=True) is True


@pytest.mark.parametrize("times", [0, 1, None])
def test_one_function_takes_the_next_batch_whatever_the_data(times, mirrored):
    data = tf.data.Dataset.range(1).repeat(times)
    strategy = mirrored(1)

    @tf.function
    def read(iterator):
        more, batch = private_tensorflow.next_on_devices(iterator)
        return more, tf.cond(more, batch, lambda: tf.constant(-1, tf.int64))

    more, batch = read(iter(strategy.distribute_datasets_from_function(lambda _: data)))
    assert (bool(more), int(batch)) == ((False, -1) if times == 0 else (True, 0))


def test_an_iterator_knows_the_strategy_that_distributed_its_dataset(mirrored):
    data, strategy = tf.data.Dataset.range(4), mirrored(2)
    distributed = iter(strategy.distribute_datasets_from_function(lambda _: data))
    assert private_tensorflow.strategy_of(distributed) is strategy


def test_the_time_can_be_read_under_op_determinism(monkeypatch):
    for enabled in (False, True):
        monkeypatch.setattr(config, "is_op_determinism_enabled", lambda enabled=enabled: enabled)
        times = tf.function(lambda: (private_tensorflow.timestamp(), private_tensorflow.timestamp()))()
        assert time.time() - 60 < float(times[0]) <= float(times[1]) <= time.time()


def test_the_next_batches_of_replicas_lie_on_their_devices(mirrored):
    """Otherwise each step would take them to the host and back."""
    strategy = mirrored(2)
    iterator = iter(strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(8).batch(2)))

    @tf.function(autograph=False)
    def read():
        more, batches = private_tensorflow.next_on_devices(iterator)
        none = (tf.zeros([0], tf.int64),) * 2
        return more, tf.cond(more, lambda: strategy.experimental_local_results(batches()), lambda: none)

    results = [read() for _ in range(3)]
    assert [bool(more) for more, _ in results] == [True, True, False]
    assert tf.concat([part for _, parts in results for part in parts], axis=0).numpy().tolist() == list(range(8))


def test_an_unchecked_function_takes_iterators_and_ignores_other_objects():
    """Each call of a step would check its iterator, which takes a tenth of a tiny step."""

    @tf.function(autograph=False)
    def add(iterator, other, number):
        return {"sum": iterator.get_next() + number}

    iterator, other = iter(tf.data.Dataset.range(3)), object()
    run = private_tensorflow.unchecked(add.get_concrete_function(iterator, other, tf.constant(0, tf.int64)))
    assert [int(run(iterator, other, tf.constant(5, tf.int64))["sum"]) for _ in range(3)] == [5, 6, 7]
    with pytest.raises(tf.errors.OutOfRangeError):
        run(iterator, other, tf.constant(5, tf.int64))
