"""Both adapters implement all that `Adapter` documents, and nothing else, with the same results as their Keras."""

import inspect

import keras as keras3
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from estimator_train._engine.keras.adapter import Adapter
from estimator_train._engine.keras.adapter_choice import adapter_of, model_source
from estimator_train._engine.keras.keras3.adapter import Keras3Adapter
from estimator_train._engine.keras.tf_keras.adapter import TfKerasAdapter
from estimator_train._engine.remedies import UnsuitableError

KERASES = [tf_keras, keras3]


def compiled(keras, optimizer="sgd", has_input=True):
    keras.utils.set_random_seed(7)
    shape = [keras.Input((4,))] if has_input else []
    model = keras.Sequential([*shape, keras.layers.Dense(3, name="scores")])
    model.compile(optimizer, "mse", metrics=["mae"])
    return model


def public(kind):
    return {name for name, value in vars(kind).items() if not name.startswith("_") and inspect.isfunction(value)}


def test_the_base_class_documents_every_method_of_the_adapters():
    assert all(inspect.getdoc(getattr(Adapter, name)) for name in public(Adapter))
    for kind in (TfKerasAdapter, Keras3Adapter):
        assert public(kind) <= public(Adapter)
        assert set(vars(Adapter)["__annotations__"]) <= set(dir(kind))


def test_each_keras_has_an_adapter_of_its_own():
    assert isinstance(adapter_of(compiled(tf_keras)), TfKerasAdapter)
    assert isinstance(adapter_of(compiled(keras3)), Keras3Adapter)
    assert adapter_of(compiled(keras3)) is adapter_of(compiled(keras3))  # programs compare it
    with pytest.raises(
        ValueError, match="keras_model must be a compiled Keras model, given: 'model'; pass the path of"
    ):
        adapter_of("model")


def test_a_model_of_another_keras_is_named_and_not_called():
    from tensorflow.python.keras import models

    with pytest.raises(ValueError, match=r"given: <.*Sequential.*>, a model of another Keras; import .* as tf.keras$"):
        model_source(models.Sequential())


@pytest.mark.parametrize("keras", KERASES)
def test_models_not_compiled_or_with_parts_of_the_other_keras(keras):
    model = keras.Sequential([keras.layers.Dense(1)])
    adapter, (other,) = adapter_of(model), [each for each in KERASES if each is not keras]
    with pytest.raises(ValueError, match="has not been compiled yet"):
        adapter.check(model)
    model.compile("sgd", other.losses.MeanSquaredError())
    with pytest.raises(ValueError, match=f"The {adapter.name} model .* of {adapter.other_name}; use its"):
        adapter.check(model)
    adapter.check(compiled(keras))
    (callback,) = [other.callbacks.Callback()]
    with pytest.raises(UnsuitableError, match=f"is of {adapter.name}, but .* is of {adapter.other_name}; use"):
        adapter.callback_list(compiled(keras), [callback], None, 1)


@pytest.mark.parametrize("keras", KERASES)
def test_the_halves_of_a_step_give_the_numbers_of_the_step(keras, data):
    batch = tuple(tf.constant(part[:16]) for part in data)
    model, other = compiled(keras), compiled(keras)
    adapter = adapter_of(model)
    gradients, predictions = adapter.gradients(model, batch)
    adapter.apply_gradients(model, gradients)
    logs = adapter.metrics(model, batch, predictions)
    expected = other.train_on_batch(*batch, return_dict=True)
    for ours, theirs in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert {name: pytest.approx(float(value), rel=1e-5) for name, value in logs.items()} == expected
    model.reset_metrics()
    logs, predictions = adapter.test_and_predict(model, batch)
    other.reset_metrics()
    expected = other.test_on_batch(*batch, return_dict=True)
    assert {name: pytest.approx(float(value), rel=1e-5) for name, value in logs.items()} == expected
    np.testing.assert_allclose(predictions, other.predict_on_batch(batch[0]), rtol=1e-5)


@pytest.mark.parametrize("keras", KERASES)
@pytest.mark.parametrize("scales_loss", [False, True])
def test_slots_are_built_once_and_only_for_variables_that_exist(keras, scales_loss):
    optimizer = keras.optimizers.Adam(0.1)
    if scales_loss:
        scaled = keras3.optimizers if keras is keras3 else keras.mixed_precision
        optimizer = scaled.LossScaleOptimizer(optimizer)
    unbuilt = compiled(keras, "adam", has_input=False)
    adapter = adapter_of(unbuilt)
    adapter.build_slots(unbuilt)
    assert not adapter.is_built(unbuilt) and adapter.trainable_variables(unbuilt) == []
    model = compiled(keras, optimizer)
    adapter.build_slots(model)
    built = [id(variable) for variable in model.optimizer.variables]
    adapter.build_slots(model)
    assert [id(variable) for variable in model.optimizer.variables] == built
    inner = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    names = [getattr(variable, "path", variable.name) for variable in inner.variables]
    assert len([name for name in names if "scores" in name or "kernel" in name or "bias" in name]) == 4
    assert adapter.is_built(model) and len(adapter.trainable_variables(model)) == 2
    assert adapter.scales_loss(model) is scales_loss


class KeepsNorms(tf_keras.optimizers.SGD):
    """Keeps a variable that Keras' list of variables lacks."""

    def build(self, variables):
        super().build(variables)
        self.norms = {"largest": tf.Variable(0.0)}


def optimizers(keras):
    """Yields optimizers of every kind, each alone and in a LossScaleOptimizer."""
    kinds = [kind for _, kind in inspect.getmembers(keras.optimizers, inspect.isclass)]
    kinds += [kind for _, kind in inspect.getmembers(keras.optimizers.legacy, inspect.isclass)]
    scale = keras.mixed_precision.LossScaleOptimizer if keras is tf_keras else keras.optimizers.LossScaleOptimizer
    for kind in [*kinds, KeepsNorms] if keras is tf_keras else kinds:
        # Optimizers around others, and base classes, have no learning rate, but for one.
        if kind.__name__ != "Optimizer" and "learning_rate" in inspect.signature(kind).parameters:
            yield kind(learning_rate=0.1)
            yield scale(kind(learning_rate=0.1))


def variables_in(part):
    """Returns the TensorFlow variables that a Python object holds, however deep."""
    found, queue, seen = [], [part], set()
    for each in queue:
        if isinstance(each, tf.Variable):
            found.append(each)
        elif id(each) not in seen:
            seen.add(id(each))
            queue += held_by(each)
    return found


def held_by(part):
    if isinstance(part, dict):
        return part.values()
    if isinstance(part, (list, tuple)):
        return part
    return [] if inspect.isroutine(part) or inspect.isclass(part) else getattr(part, "__dict__", {}).values()


@pytest.mark.slow  # test_private_tf_keras.py has one optimizer
@pytest.mark.parametrize("keras", KERASES)
def test_checkpoints_have_every_variable_of_every_optimizer(keras):
    for optimizer in optimizers(keras):
        model = compiled(keras, optimizer)
        adapter = adapter_of(model)
        tf.train.TrackableView(adapter.saved_parts(model).root).descendants()  # as a copy's restore lists them
        adapter.prepare_training(model, tf.distribute.get_strategy())
        adapter.build_slots(model)
        saved = set(map(id, tf.train.TrackableView(adapter.saved_parts(model).root).descendants()))
        held = variables_in(model.optimizer)
        if keras is keras3:  # which lists them all
            held = [variable.value for variable in model.optimizer.variables]
        assert len(held) > 1 and [each.name for each in held if id(each) not in saved] == [], optimizer


@pytest.mark.parametrize("keras", KERASES)
def test_the_learning_rate_is_that_of_the_last_update(keras, data):
    model = compiled(keras, keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)))
    adapter = adapter_of(model)
    for expected in (0.5, 0.25):
        model.train_on_batch(data[0][:8], data[1][:8])
        assert float(adapter.learning_rate(model.optimizer)) == expected
    assert adapter.hyperparameters(model) == {}
    (name,) = adapter.hyperparameters(compiled(keras))
    assert name == "learning_rate"


@pytest.mark.parametrize("keras", KERASES)
def test_inputs_outputs_and_own_steps(keras):
    class Own(keras.Model):
        def train_step(self, data):
            return {}

    features = keras.Input((4,), name="x")
    model = Own(features, keras.layers.Dense(3, name="scores")(features))
    adapter = adapter_of(model)
    (name,) = adapter.inputs(model)
    assert name == "x" and adapter.output_names(model) == ["scores"]
    assert adapter.is_own_step(model, "test_step") and not adapter.is_own_step(model, "train_step")


@pytest.mark.parametrize("keras", KERASES)
def test_statistics_are_those_that_finalize_state_reads(keras):
    normalization = keras.layers.Normalization()
    normalization.adapt(np.array([[1.0], [3.0]]))
    model = keras.Sequential([keras.Input((1,)), normalization])
    adapter = adapter_of(model)
    before = adapter.statistics(model)
    variable = next(weight for weight in normalization.weights if "mean" in getattr(weight, "path", weight.name))
    variable.assign([1.0])
    assert adapter.statistics(model) != before
    adapter.finalize_state(model)
    np.testing.assert_allclose(model(tf.constant([[3.0]])), [[2.0]], rtol=1e-6)
