"""tf.contrib's transformations of (gradient, variable) pairs before the update."""

from __future__ import annotations

import tensorflow as tf


def clip_gradient_norms(gradients_to_variables, max_norm):
    """Returns the (gradient, variable) pairs with each gradient clipped to the norm separately."""
    return [
        (gradient if gradient is None else _map_values(tf.clip_by_norm, gradient, max_norm), variable)
        for gradient, variable in gradients_to_variables
    ]


def clip_gradient_norms_fn(max_norm):
    return lambda gradients_to_variables: clip_gradient_norms(gradients_to_variables, max_norm)


def multiply_gradients(grads_and_vars, gradient_multipliers):
    """Multiplies gradients by the factors in a dict keyed by variable or name; returns (gradient, variable) pairs."""
    if not isinstance(gradient_multipliers, dict) or not gradient_multipliers:
        raise ValueError(f"gradient_multipliers={gradient_multipliers!r}: pass a dict of variables to factors")
    by_name = {key if isinstance(key, str) else key.op.name: factor for key, factor in gradient_multipliers.items()}
    multiplied = []
    for gradient, variable in grads_and_vars:
        factor = by_name.get(variable.op.name)
        if factor is not None:
            if gradient is None:
                raise ValueError(f"gradient_multipliers: {variable.op.name} has no gradient to multiply")
            gradient = _map_values(lambda values, factor: values * tf.cast(factor, values.dtype), gradient, factor)
        multiplied.append((gradient, variable))
    return multiplied


def _map_values(function, gradient, *arguments):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values, *arguments), gradient.indices, gradient.dense_shape)
    return function(gradient, *arguments)
