"""The peculiarities of tf_keras: variables made before the first step, metrics over replicas, files with lambdas."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras.adapter_choice import adapter_of

layers = keras.layers
ADAPTER = adapter_of(keras.Sequential())
X, Y = np.ones([4, 2], "float32"), np.eye(3, dtype="float32")[[0, 1, 2, 0]]


def compiled(optimizer="adam", **arguments):
    model = keras.Sequential([keras.Input((2,)), layers.Dense(3, "softmax")])
    model.compile(optimizer, "categorical_crossentropy", **arguments)
    return model


def spec():
    return tf.data.Dataset.from_tensors((X, Y)).element_spec


def trace(function):
    tf.function(function, autograph=False).get_concrete_function(spec())


def test_the_first_step_creates_no_variable_after_build_variables():
    model = compiled(metrics=["accuracy"])
    strategy = tf.distribute.get_strategy()
    ADAPTER.build_variables(model, strategy, trace, "train_step")
    (accuracy,) = [metric for metric in model.metrics if metric.name == "accuracy"]
    assert accuracy.variables and len(model.optimizer.variables) == 1 + 2 * 2
    step = tf.function(model.train_step, autograph=False)
    traced = step.get_concrete_function(spec())
    assert step.experimental_get_tracing_count() == 1  # a second trace would follow one that creates variables
    assert {"loss", "accuracy"} == traced.structured_outputs.keys()


def test_a_train_step_of_the_users_creates_its_own_slots():
    class Own(keras.Sequential):
        def train_step(self, data):
            return {}

    model = Own([keras.Input((2,)), layers.Dense(3)])
    model.compile("adam", "mse")
    ADAPTER.build_variables(model, tf.distribute.get_strategy(), trace, "train_step")
    assert len(model.optimizer.variables) == 1  # the count of updates


def test_weights_are_saved_as_far_as_layers_have_created_them():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense, self.later = layers.Dense(3), layers.Dense(1)

        def call(self, inputs):
            return self.dense(inputs)

    model = Model()
    assert ADAPTER.variables(model) == ADAPTER.trainable_variables(model) == []
    model(X)
    parts = ADAPTER.saved_parts(model)
    assert {id(weight) for weight in parts.weights} == {id(weight) for weight in model.dense.weights}
    assert parts.root is model and len(parts.trained) == 2
    assert not ADAPTER.is_built(model)  # one of its layers is not
    model.later(X)
    assert ADAPTER.is_built(model)


def test_logs_over_replicas_sum_the_loss_and_leave_metrics_alone(mirrored):
    strategy = mirrored(2)
    with strategy.scope():
        model = compiled("sgd", metrics=["accuracy"])

    @tf.function(autograph=False)
    def run(batch):
        def step(batch):
            logs = model.test_step(batch)
            return logs | {"part": tf.constant(2.0)}, batch[0]

        return ADAPTER.run_step(model, strategy, step, batch)

    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensors((X, Y)).unbatch().batch(4))
    logs, features = run(next(iter(dataset)))
    whole = compiled("sgd", metrics=["accuracy"])
    whole.set_weights(model.get_weights())
    expected = whole.test_on_batch(X, Y, return_dict=True)
    assert float(logs["loss"]) == pytest.approx(expected["loss"], rel=1e-5)
    assert float(logs["accuracy"]) == pytest.approx(expected["accuracy"])
    assert float(logs["part"]) == 4.0
    assert len(strategy.experimental_local_results(features)) == 2


def test_stateful_layers_start_anew():
    model = keras.Sequential([keras.Input(batch_shape=(2, 3, 1)), layers.GRU(2, stateful=True)])
    first = model(np.ones([2, 3, 1], "float32"))
    assert not np.array_equal(model(np.ones([2, 3, 1], "float32")), first)
    ADAPTER.reset_states(model)
    np.testing.assert_array_equal(model(np.ones([2, 3, 1], "float32")), first)


def test_a_rate_is_unknown_of_a_v1_optimizer_and_follows_a_legacy_schedule():
    model = compiled(tf.compat.v1.train.GradientDescentOptimizer(0.5))
    assert ADAPTER.learning_rate(model.optimizer) is None
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    model = compiled(keras.optimizers.legacy.SGD(schedule))
    for expected in (0.5, 0.25):
        model.train_on_batch(X, Y)
        assert float(ADAPTER.learning_rate(model.optimizer)) == expected


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_a_file_with_a_lambda_is_loaded_only_if_it_may_be(name, tmp_path):
    keras.Sequential([keras.Input((2,)), layers.Lambda(lambda x: x + 1.0)]).save(tmp_path / name)
    assert ADAPTER.load_model(tmp_path / name, None, True) == (None, True)
    model, has_lambda = ADAPTER.load_model(tmp_path / name, None, False)
    assert has_lambda
    np.testing.assert_array_equal(model(X), X + 1)
    compiled().save(tmp_path / f"plain-{name}")
    model, has_lambda = ADAPTER.load_model(tmp_path / f"plain-{name}", None, True)
    assert not has_lambda and model.output_shape == (None, 3)
