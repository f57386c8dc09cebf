"""A model is cut where its frozen, deterministic layers end, and refused where that would change results."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.keras.tf_keras.frozen_layers import split

layers = keras.layers


def halves(model):
    return split(model, tf.distribute.get_strategy())


def compiled(model):
    model.compile("adam", "mse")
    return model


def freeze(*frozen):
    for layer in frozen:
        layer.trainable = False


def nested_model(training=None, dropout=0):
    """Builds a nested model with all layers but the last frozen."""
    base = keras.Sequential(
        [
            layers.Dense(5, activation="relu", input_shape=(4,)),
            *([layers.Dropout(dropout)] if dropout else []),
            layers.BatchNormalization(name="statistics"),
            layers.Dense(6, activation="relu", kernel_regularizer="l2"),
            layers.Dense(3),
        ]
    )
    freeze(*base.layers[:-1])
    inputs = keras.Input((4,))
    return compiled(keras.Model(inputs, layers.Dense(2)(base(inputs / 2.0, training=training))))


def branched_model():
    """Builds a model with two frozen branches and two inputs, one of which feeds the trained part directly."""
    scan, age = keras.Input((4,), name="scan"), keras.Input((1,), name="age", dtype="int32")
    left, right = layers.Dense(3, name="left"), layers.Dense(5, name="right", activation="tanh")
    freeze(left, right)
    features = right(scan)
    joined = layers.Concatenate()([left(scan), layers.Dense(2)(features), layers.Dense(2)(tf.cast(age, tf.float32))])
    outputs = {"grade": layers.Dense(2, name="grade")(joined), "size": layers.Dense(1, name="size")(features)}
    return compiled(keras.Model([scan, age], outputs))


def test_a_model_that_is_a_layer_is_cut_inside(data):
    model = nested_model()
    frozen, trained = halves(model)
    (features,) = frozen(data[0], training=True)
    assert features.shape == (96, 6)
    np.testing.assert_array_equal(trained((features,), training=True), model(data[0], training=True))


def test_branches_and_inputs_are_cut_each_where_it_must_be(data):
    model = branched_model()
    batch = {"age": np.arange(96)[:, None], "scan": data[0]}  # Keras casts what an Input calls otherwise
    frozen, trained = halves(model)
    features = frozen(batch, training=True)
    assert sorted(feature.shape[1] for feature in features) == [1, 3, 5]
    outputs, expected = trained(tuple(features), training=True), model(batch, training=True)
    assert outputs.keys() == {"grade", "size"}
    for name, output in outputs.items():
        np.testing.assert_array_equal(output, expected[name])


def test_a_frozen_layer_may_give_an_output_of_the_model(data):
    inputs = keras.Input((4,))
    features = layers.Dense(3, trainable=False)(inputs)
    model = compiled(keras.Model(inputs, {"features": features, "grade": layers.Dense(2)(features)}))
    frozen, trained = halves(model)
    outputs, expected = trained(tuple(frozen(data[0], training=True)), training=True), model(data[0], training=True)
    for name, output in outputs.items():
        np.testing.assert_array_equal(output, expected[name])


def test_the_trained_part_has_all_variables_losses_and_the_optimizer():
    model = nested_model()
    _, trained = halves(model)
    assert [id(each) for each in trained.trainable_variables] == [id(each) for each in model.trainable_variables]
    np.testing.assert_array_equal(trained.losses, model.losses)  # a frozen layer has the penalty
    assert trained.optimizer is model.optimizer
    assert trained.compiled_metrics is model.compiled_metrics


def test_a_base_called_without_training_may_have_dropout(data):
    frozen, _ = halves(nested_model(training=False, dropout=0.5))
    first, again = (frozen(data[0], training=True)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)


def sequential(*model_layers):
    return compiled(keras.Sequential([keras.Input((8, 8, 1)), *model_layers, layers.Flatten(), layers.Dense(2)]))


def frozen_conv(**kwargs):
    return layers.Conv2D(2, 3, trainable=False, **kwargs)


class Own(keras.Model):
    """A functional model of a custom class."""


class Scaled(layers.Layer):
    """Keeps a running mean, as layers do that Keras does not know."""

    def build(self, shape):
        self.mean = self.add_weight("mean", (), trainable=False)

    def call(self, inputs):
        self.mean.assign(tf.reduce_mean(inputs))
        return inputs


REFUSED = {
    "dropout": (
        lambda: nested_model(dropout=0.5),
        r"Layer dropout.*\(Dropout\).*frozen layers after it, such as statistics,.*training=False",
    ),
    "augmentation": (
        lambda: sequential(layers.RandomFlip(), frozen_conv()),
        r"Layer random_flip.*such as conv2d",
    ),
    "trained BatchNormalization": (
        lambda: sequential(frozen_conv(), layers.BatchNormalization(), frozen_conv()),
        r"Layer batch_normalization.*changes in training.*after it, such as conv2d_1,.*; freeze it, or",
    ),
    "random numbers": (
        lambda: sequential(layers.Lambda(lambda x: tf.nn.dropout(x, 0.5), name="noise"), frozen_conv()),
        "Layer noise.*RandomUniform",
    ),
    "state": (lambda: sequential(Scaled(name="scaled"), frozen_conv()), "Layer scaled .*Assign"),
    "activity regularizer": (
        lambda: sequential(frozen_conv(activity_regularizer="l2", name="penalised"), frozen_conv()),
        "Layer penalised .*adds to the loss for its outputs",
    ),
    "nothing frozen": (lambda: sequential(layers.Conv2D(2, 3)), "No frozen layers lead the model.*before compile"),
    "the only one adds losses": (
        lambda: sequential(frozen_conv(activity_regularizer="l2", name="penalised")),
        "No frozen layers lead the model sequential.*: Layer penalised",
    ),
    "own class": (
        lambda: compiled(Own((inputs := keras.Input((4,))), layers.Dense(2)(inputs))),
        "is of the custom class Own, and only functional and Sequential models",
    ),
    "no known input": (lambda: compiled(keras.Sequential([layers.Dense(2)])), "make keras.Input.* its first layer"),
    "mask": (
        lambda: compiled(
            keras.Sequential(
                [keras.Input((3,)), layers.Embedding(9, 4, mask_zero=True, trainable=False), layers.Dense(2)]
            )
        ),
        "Layer embedding.* outputs a mask",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_would_change_results_is_refused_in_one_line(kind):
    build, message = REFUSED[kind]
    with pytest.raises(ValueError, match=message) as error:
        halves(build())
    assert "\n" not in str(error.value)


def test_dropout_behind_the_frozen_layers_is_in_the_trained_part(data):
    model = sequential(frozen_conv(), layers.Dropout(0.5))
    frozen, trained = halves(model)
    features = frozen(np.ones((4, 8, 8, 1), np.float32), training=True)
    assert not np.array_equal(trained(tuple(features), training=True), trained(tuple(features), training=True))


def test_a_base_that_is_frozen_as_a_whole_leads(data):
    base = keras.Sequential([layers.Dense(5, input_shape=(4,)), layers.Dense(3)])
    base.trainable = False
    base.layers[-1].trainable = True  # Keras trains nothing of a model that is frozen
    frozen, _ = halves(compiled(keras.Sequential([keras.Input((4,)), base, layers.Dense(2)])))
    assert frozen(data[0], training=True)[0].shape == (96, 3)


def test_the_fingerprint_is_that_of_weights_and_settings_not_of_names():
    def fingerprint(activation="relu", scale=1.0):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation, trainable=False), layers.Dense(2)])
        model.layers[0].set_weights([np.full((4, 3), scale), np.zeros(3)])
        return halves(compiled(model))[0].fingerprint()

    assert fingerprint() == fingerprint()
    assert len({fingerprint(), fingerprint("tanh"), fingerprint(scale=2.0)}) == 3
