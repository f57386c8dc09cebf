"""Private names of tf_keras that this package uses, each behind a function."""

import tensorflow as tf

from estimator_train._engine.libraries import private_names_of

v1 = tf.compat.v1


@private_names_of("tf_keras")
def v1_dense_class() -> type:
    """`tf.compat.v1.layers.Dense`, which exists only if TF_USE_LEGACY_KERAS was set before TensorFlow was imported."""
    from tf_keras.src.legacy_tf_layers.core import Dense

    return Dense


@private_names_of("tf_keras")
def v1_batch_normalization_class() -> type:
    """`tf.compat.v1.layers.BatchNormalization`; see `v1_dense_class`."""
    from tf_keras.src.legacy_tf_layers.normalization import BatchNormalization

    return BatchNormalization
