"""Private names of TensorFlow that this package uses, each behind a function."""

from typing import Any

import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.libraries import private_names_of


@private_names_of("tensorflow")
def feature_column_class() -> Any:
    """Returns the base class of feature columns; tf.feature_column only has the functions that create them."""
    return tf.__internal__.feature_column.FeatureColumn


@private_names_of("tensorflow")
def dense_column_class() -> Any:
    """Returns the base class of dense feature columns."""
    return tf.__internal__.feature_column.DenseColumn


@private_names_of("tensorflow")
def column_cache(features: dict[str, Any]) -> Any:
    """Returns the object that feature columns read: the dict `features` with the tensors that columns derive from it.

    The public alternative, Keras' DenseFeatures layer, ignores a variable scope's partitioner.
    """
    return tf.__internal__.feature_column.FeatureTransformationCache(features)


@private_names_of("tensorflow")
def column_state() -> Any:
    """Returns the object that creates feature columns' trainable variables and lookup tables; see `column_cache`."""
    return tf.__internal__.feature_column.StateManager(keras.layers.Layer(), trainable=True)
