"""TensorFlow Ranking's Estimators, which rank lists of examples by a score."""

import numpy as np
import tensorflow as tf
import tensorflow_ranking as tfr

from benchmarks.clients.case import from_arrays


def cases():
    return {"make_dnn_ranking_estimator": dnn, "keras.estimator.model_to_estimator": keras_network}


def dnn(folder):
    estimator = tfr.estimator.make_dnn_ranking_estimator(
        {"relevance": tf.feature_column.numeric_column("relevance")},
        hidden_units=[4],
        optimizer=tf.compat.v1.train.AdagradOptimizer(0.1),
        loss="softmax_loss",
        listwise_inference=True,
        model_dir=folder,
    )
    return lists(estimator)


def keras_network(folder):
    network = tfr.keras.canned.DNNRankingNetwork(
        example_feature_columns={"relevance": tf.feature_column.numeric_column("relevance")},
        hidden_layer_dims=[4],
        use_batch_norm=False,
    )
    model = tfr.keras.model.create_keras_model(
        network,
        tfr.keras.losses.get("softmax_loss"),
        tfr.keras.metrics.default_keras_metrics(),
        tf.keras.optimizers.legacy.Adagrad(0.1),
        size_feature_name=None,
    )
    config = tf.estimator.RunConfig(model_dir=folder, tf_random_seed=1)
    return lists(tfr.keras.estimator.model_to_estimator(model, config=config))


def lists(estimator):
    """Returns sixteen lists of four examples; higher relevance is better."""
    relevance = np.random.RandomState(1).rand(16, 4, 1).astype(np.float32)
    labels = np.floor(relevance[..., 0] * 3)
    return from_arrays(estimator, {"relevance": relevance}, labels, batch_size=8, steps=12)
