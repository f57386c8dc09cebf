"""tf.contrib.layers.optimize_loss: builds a training step from a loss, with summaries and gradient transformations."""

from __future__ import annotations

import functools
import numbers

import tensorflow as tf

from estimator_train.compat.tf1.gradients import multiply_gradients

_v1 = tf.compat.v1

OPTIMIZER_CLS_NAMES = {
    "Adagrad": _v1.train.AdagradOptimizer,
    "Adam": _v1.train.AdamOptimizer,
    "Ftrl": _v1.train.FtrlOptimizer,
    "Momentum": functools.partial(_v1.train.MomentumOptimizer, momentum=0.9),
    "RMSProp": _v1.train.RMSPropOptimizer,
    "SGD": _v1.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]


def optimize_loss(
    loss,
    global_step,
    learning_rate,
    optimizer,
    gradient_noise_scale=None,
    gradient_multipliers=None,
    clip_gradients=None,
    learning_rate_decay_fn=None,
    update_ops=None,
    variables=None,
    name=None,
    summaries=None,
    colocate_gradients_with_ops=False,
    increment_global_step=True,
):
    """Returns a tensor with the loss's value that runs a step of the optimizer when it is fetched.

    `optimizer` is a name in OPTIMIZER_CLS_NAMES, an optimizer, or a class or function that takes the learning rate (no
    argument if that is None). `clip_gradients` is the maximum global norm, or a function of (gradient, variable) pairs.
    """
    summaries = ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else summaries
    if unknown := set(summaries) - set(OPTIMIZER_SUMMARIES):
        raise ValueError(f"Summaries should be one of {OPTIMIZER_SUMMARIES}, you provided {sorted(unknown)}.")
    with _v1.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        global_step = _v1.train.get_or_create_global_step() if global_step is None else global_step
        update_ops = _v1.get_collection(_v1.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        with tf.control_dependencies(list(update_ops)):
            loss = tf.identity(loss)
        if learning_rate is not None:
            learning_rate = _learning_rate(learning_rate, global_step, learning_rate_decay_fn)
            if "learning_rate" in summaries:
                _v1.summary.scalar("learning_rate", learning_rate)
        optimizer = _optimizer(optimizer, learning_rate)
        variables = _v1.trainable_variables() if variables is None else variables
        gradients = optimizer.compute_gradients(
            loss, variables, colocate_gradients_with_ops=colocate_gradients_with_ops
        )
        if gradient_noise_scale is not None:
            gradients = _with_noise(gradients, gradient_noise_scale)
        if gradient_multipliers is not None:
            gradients = multiply_gradients(gradients, gradient_multipliers)
        if {"gradient_norm", "global_gradient_norm"} & set(summaries):
            norm = tf.linalg.global_norm([gradient for gradient, _ in gradients])
            _v1.summary.scalar("global_norm/gradient_norm", norm)
        if callable(clip_gradients):
            gradients = clip_gradients(gradients)
        elif clip_gradients is not None:
            values, trained = zip(*gradients, strict=True)
            gradients = list(zip(tf.clip_by_global_norm(values, clip_gradients)[0], trained, strict=True))
        if "loss" in summaries:
            _v1.summary.scalar("loss", loss)
        if "gradients" in summaries:
            for gradient, variable in gradients:
                _v1.summary.histogram(f"gradients/{variable.op.name}", gradient)
        step = global_step if increment_global_step else None
        with tf.control_dependencies([optimizer.apply_gradients(gradients, global_step=step, name="train")]):
            return tf.identity(loss)


def _learning_rate(learning_rate, global_step, decay):
    """Returns the learning rate as a tensor; a number becomes a variable, as in TF 1's checkpoints."""
    if isinstance(learning_rate, numbers.Real):
        if learning_rate < 0:
            raise ValueError(f"Invalid learning_rate {learning_rate}.")
        initializer = _v1.constant_initializer(learning_rate)
        learning_rate = _v1.get_variable("learning_rate", [], trainable=False, initializer=initializer)
    return decay(learning_rate, global_step) if decay else learning_rate


def _optimizer(optimizer, learning_rate):
    """Returns the optimizer, given as a name, an optimizer, a class or a function."""
    made = optimizer
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZER_CLS_NAMES:
            names = ", ".join(OPTIMIZER_CLS_NAMES)
            raise ValueError(f"Optimizer name should be one of [{names}], you provided {optimizer}.")
        made = OPTIMIZER_CLS_NAMES[optimizer](learning_rate)
    elif callable(optimizer):
        made = optimizer() if learning_rate is None else optimizer(learning_rate)
    if not isinstance(made, _v1.train.Optimizer):
        raise ValueError(
            "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or "
            f"function with one argument. Got {optimizer!r}."
        )
    return made


def _with_noise(gradients, scale):
    noisy = []
    for gradient, variable in gradients:
        if gradient is not None:
            gradient = tf.convert_to_tensor(gradient)
            gradient += scale * _v1.truncated_normal(tf.shape(gradient), dtype=gradient.dtype)
        noisy.append((gradient, variable))
    return noisy
