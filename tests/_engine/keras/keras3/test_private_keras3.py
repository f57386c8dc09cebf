"""Each private name of Keras 3, used as in the package; docstrings say what breaks without it."""

import estimator_train  # noqa: F401, before TensorFlow, as users have it

# isort: split
import pytest
import tensorflow as tf

from estimator_train._engine.keras.keras3 import private_keras3
from estimator_train._engine.libraries import MissingNameError


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
    (base,) = [layer for layer in private_keras3.sublayers(keras3_model) if private_keras3.sublayers(layer)]
    (dropout,) = [layer for layer in private_keras3.sublayers(base) if private_keras3.seed_states(layer)]
    (state,) = private_keras3.seed_states(dropout)
    assert tuple(state.shape) == (2,)


def test_the_arguments_of_a_keras_3_metrics_function(keras3):
    """A copy of CosineSimilarity(axis=0) would measure along the last axis."""
    assert private_keras3.function_arguments(keras3.metrics.CosineSimilarity(axis=0)) == {"axis": 0}


def test_the_class_of_functional_keras_3_models(keras3, keras3_model):
    """A functional model could not be told from one of the user's class, and would be cloned by its configuration."""
    assert type(keras3_model) is private_keras3.functional_class()
    assert not isinstance(keras3.Sequential(), private_keras3.functional_class())


def test_a_step_of_a_keras_3_model_on_symbols_makes_its_variables(keras3):
    """Variables made in the first step would have it traced twice, and on replicas they would be made several times."""
    model = keras3.Sequential([keras3.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    data = keras3.KerasTensor((None, 2)), keras3.KerasTensor((None, 1))
    logs = private_keras3.compute_output_spec(model.test_step, data)
    assert logs.keys() == {"loss", "mae"}
    assert model.built and all(metric.variables for metric in model.metrics)


def test_the_parts_of_a_keras_3_optimizer(keras3_model):
    """A model's variables would have the names of the optimizer's list in checkpoints, and models without it others."""
    keras3_model.optimizer.build(keras3_model.trainable_variables)
    parts = private_keras3.parts_of_optimizer(keras3_model.optimizer)
    assert {"_iterations", "_variables"} <= parts.keys()
    own = {id(variable) for variable in keras3_model.trainable_variables}
    for part in parts.values():
        assert not own & set(map(id, tf.train.TrackableView.children(part).values()))


def test_the_own_variables_of_a_keras_3_optimizer_are_where_keras_has_them(keras3, keras3_model):
    """A model with a schedule, which has no variable, would otherwise read its slots from the places beside them."""
    for rate in (0.1, keras3.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)):
        optimizer = keras3.optimizers.SGD(rate, momentum=0.9)
        optimizer.build(keras3_model.trainable_variables)
        own = private_keras3.optimizer_variables(optimizer)
        assert list(map(id, own)) == list(map(id, optimizer.variables))


def test_a_keras_3_model_of_the_user_may_have_lambdas(keras3):
    """A Lambda layer of the user's own model could not be copied."""
    layer = keras3.layers.Lambda(lambda x: x + 1)
    with private_keras3.deserialized_lambdas():
        copy = keras3.layers.Lambda.from_config(layer.get_config())
    assert copy(tf.ones([1])) == 2.0


def test_exclusions_from_weight_decay_in_keras_3(keras3):
    """A copy of the optimizer would decay what the user has excluded."""
    optimizer = keras3.optimizers.AdamW()
    assert private_keras3.weight_decay_exclusions(optimizer, keras3.optimizers.AdamW()) == ((), [])
    weight = keras3.Variable([1.0])
    optimizer.exclude_from_weight_decay(var_list=[weight], var_names=["bias"])
    variables, names = private_keras3.weight_decay_exclusions(optimizer, keras3.optimizers.AdamW())
    assert len(variables) == 1
    assert names == ["bias"]


def test_lost_exclusions_from_weight_decay_stop_only_who_has_some(keras3):
    """On a newer Keras, no model could be trained, or the excluded weights would decay."""

    class Changed(keras3.optimizers.AdamW):
        def exclude_from_weight_decay(self, var_list=None, var_names=None):
            self.excluded = var_names

    optimizer = Changed()
    assert private_keras3.weight_decay_exclusions(optimizer, Changed()) == ((), [])
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    with pytest.raises(MissingNameError, match="_exclude_from_weight_decay_pattern"):
        private_keras3.weight_decay_exclusions(optimizer, Changed())


def test_the_loss_of_a_keras_3_model_is_added_to_its_metric(keras3_model):
    """With accumulate_steps, the loss that is logged would stay 0."""
    ones = tf.ones([4, 2]), tf.ones([4, 1])
    assert private_keras3.compute_loss(keras3_model, *ones, tf.zeros([4, 1]), None, training=True) == 1.0
    assert [metric for metric in keras3_model.metrics if metric.name == "loss"] == [
        private_keras3.loss_metric(keras3_model)
    ]


def test_the_rate_or_the_schedule_of_a_keras_3_optimizer(keras3):
    """The learning rate could not be logged, and a copy would have a schedule made from a configuration."""
    schedule = keras3.optimizers.schedules.CosineDecay(0.1, 10)
    assert private_keras3.learning_rate_or_schedule(keras3.optimizers.SGD(schedule)) is schedule
    assert float(private_keras3.learning_rate_or_schedule(keras3.optimizers.SGD(0.5))) == 0.5
