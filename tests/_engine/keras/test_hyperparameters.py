"""A changed compiled learning rate takes precedence; otherwise the checkpoint's stays."""

import os
import sys

import pytest
import tf_keras as keras

import estimator_train as et

RATE = 0.25


def keras_3_model(rate):
    import keras as keras_3

    model = keras_3.Sequential([keras_3.Input((4,)), keras_3.layers.Dense(3, activation="softmax")])
    model.compile(keras_3.optimizers.SGD(rate), "categorical_crossentropy")
    return model


OPTIMIZERS = {
    "legacy": keras.optimizers.legacy.Adam,
    "loss scale": lambda rate: keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(rate)),
}


def rates_of(model, then):
    """A callback that keeps the rate of each step, and sets another after the first, if one is given; and the list."""
    callbacks = sys.modules[type(model).__module__.partition(".")[0]].callbacks
    seen = []

    def keep(batch, logs):
        seen.append(float(model_in_training.model.optimizer.learning_rate.numpy()))
        if then is not None:
            model_in_training.model.optimizer.learning_rate = then

    model_in_training = callbacks.LambdaCallback(on_train_batch_end=keep)
    return model_in_training, seen


@pytest.fixture
def train(data, batches, tmp_path):
    """Gives the estimator of a model, after two steps in one model_dir, and their rates."""

    def run(model, then=None, folder="run", **config):
        estimator = et.model_to_estimator(model, config=et.RunConfig(tmp_path / folder, **config))
        callback, rates = rates_of(model, then)
        estimator.train(batches(data, 16), hooks=[et.CallbacksHook(callback, 2)], steps=2)
        return estimator, rates

    return run


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Keras 3", "legacy", "loss scale"])
def test_a_rate_that_is_compiled_anew_is_trained_with(kind, train, classifier, log_lines):
    def compiled(rate):
        return keras_3_model(rate) if kind == "Keras 3" else classifier(OPTIMIZERS[kind](rate), metrics=())

    first, _ = train(compiled(RATE), then=0.0625)
    assert train(compiled(RATE))[1] == [0.0625, 0.0625]  # compiled as before: what a callback set stays
    assert not any("is compiled with" in line for line in log_lines)
    assert train(compiled(0.125))[1] == [0.125, 0.125]
    line = (
        "The model is compiled with learning_rate 0.125, but the checkpoint's with 0.25; training continues with 0.125."
    )
    assert line in log_lines
    assert train(compiled(0.125))[1] == [0.125, 0.125]
    # In plain Keras, too, and from there on in another folder.
    model = compiled(0.5)
    if kind != "Keras 3":  # whose load_weights takes other files
        model.load_weights(first.latest_checkpoint()).expect_partial()
        assert train(model, folder="other")[1] == [0.5, 0.5]
        assert int(model.optimizer.iterations) == 8


@pytest.mark.slow
def test_a_rate_on_replicas(train, classifier, mirrored):
    config = {"train_distribute": mirrored(2)}
    train(classifier(keras.optimizers.SGD(RATE), metrics=()), **config)
    assert train(classifier(keras.optimizers.SGD(0.125), metrics=()), **config)[1] == [0.125, 0.125]


def test_other_hyperparameters_that_are_saved_follow_too(train, classifier):
    train(classifier(keras.optimizers.legacy.SGD(RATE, momentum=0.9), metrics=()))
    estimator, _ = train(classifier(keras.optimizers.legacy.SGD(RATE, momentum=0.5), metrics=()))
    (name,) = [name for name in estimator.get_variable_names() if name.startswith("estimator_hyperparameters/momentum")]
    assert estimator.get_variable_value(name) == 0.5


@pytest.mark.slow
def test_another_optimizer_begins_with_its_own(train, classifier):
    train(classifier(keras.optimizers.Adam(RATE), metrics=()))
    assert train(classifier(keras.optimizers.SGD(0.125), metrics=()))[1] == [0.125, 0.125]


@pytest.mark.slow
def test_evaluation_reads_such_checkpoints(train, classifier, data, batches):
    estimator, _ = train(classifier(keras.optimizers.SGD(RATE), metrics=()))
    before = estimator.evaluate(batches(data, 32))
    again = et.model_to_estimator(
        classifier("sgd", metrics=()), model_dir=os.path.dirname(estimator.latest_checkpoint())
    )
    assert again.evaluate(batches(data, 32)) == before
