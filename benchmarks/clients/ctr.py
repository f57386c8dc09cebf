"""DeepCTR's Estimators, which predict clicks from categories and numbers."""

import numpy as np
import tensorflow as tf
from deepctr.estimator import DeepFMEstimator, WDLEstimator, xDeepFMEstimator

from benchmarks.clients.case import from_arrays


def cases():
    return {
        make.__name__: lambda folder, make=make: clicks(make, folder)
        for make in (DeepFMEstimator, WDLEstimator, xDeepFMEstimator)
    }


def clicks(make, folder):
    random = np.random.RandomState(1)
    features = {
        "user": random.randint(0, 8, 64),
        "item": random.randint(0, 6, 64),
        "age": random.rand(64).astype(np.float32),
    }
    labels = (features["user"] % 2 == features["item"] % 2).astype(np.float32)
    user, item = (
        tf.feature_column.categorical_column_with_identity(name, size) for name, size in (("user", 8), ("item", 6))
    )
    age = tf.feature_column.numeric_column("age")
    embedded = [
        tf.feature_column.embedding_column(column, 4, initializer=tf.keras.initializers.Constant(0.1))
        for column in (user, item)
    ]
    estimator = make(
        [user, item, age],
        [*embedded, age],
        dnn_hidden_units=(8, 4),
        config=tf.estimator.RunConfig(model_dir=folder, tf_random_seed=1),
    )
    return from_arrays(estimator, features, labels, batch_size=16, steps=24)
