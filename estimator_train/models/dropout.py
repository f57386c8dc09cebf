"""Dropout before the last layer of a classifier."""

from __future__ import annotations

import tf_keras as keras

from estimator_train.session import private_names


def with_dropout(model: keras.Model, rate: float) -> keras.Model:
    """Returns the compiled functional or Sequential `model` with Dropout of that rate before its last layer.

    A Dropout that is there gets the rate; else the result is another model, which shares all layers but the last.
    """
    *_, before, last = model.layers
    if isinstance(before, keras.layers.Dropout):
        before.rate = rate
        return model
    new_last = type(last).from_config(last.get_config())
    outputs = new_last(keras.layers.Dropout(rate)(last.input))
    new_last.set_weights(last.get_weights())
    dropping = keras.Model(model.inputs, outputs, name=model.name)
    dropping.compile(**private_names.compile_arguments(model))
    return dropping
