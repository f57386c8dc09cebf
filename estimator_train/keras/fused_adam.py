"""Adam in one kernel: TensorFlow's ResourceApplyAdam in the place of the dozen ops of tf_keras' Adam and AdamW.

A dozen ops read and write the variable, its gradient and both moments again and again. The kernel is the one that
Keras' legacy Adam has always had; results differ in the last digits, since it rounds 1 - beta_2 as a float32.
"""

from __future__ import annotations

import functools

import tensorflow as tf
import tf_keras as keras

from estimator_train.session.private_names import adam_slots


def fuse(optimizer):
    """Has `optimizer`, of tf_keras, update each variable in one kernel, if it is an Adam or AdamW as Keras has it."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    if type(optimizer) not in (keras.optimizers.Adam, keras.optimizers.AdamW):
        return  # a subclass may have another step
    if optimizer.amsgrad or getattr(optimizer, "adaptive_epsilon", False):
        return
    optimizer.update_step = functools.partial(_update_step, optimizer, optimizer.update_step)


def _update_step(optimizer, of_keras, gradient, variable):
    if isinstance(gradient, tf.IndexedSlices):
        of_keras(gradient, variable)
        return
    dtype = variable.dtype
    beta_1, beta_2 = tf.cast(optimizer.beta_1, dtype), tf.cast(optimizer.beta_2, dtype)
    step = tf.cast(optimizer.iterations + 1, dtype)
    first, second = adam_slots(optimizer, variable)
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=first.handle,
        v=second.handle,
        beta1_power=tf.pow(beta_1, step),
        beta2_power=tf.pow(beta_2, step),
        lr=tf.cast(optimizer.learning_rate, dtype),
        beta1=beta_1,
        beta2=beta_2,
        epsilon=tf.cast(optimizer.epsilon, dtype),
        grad=gradient,
    )
