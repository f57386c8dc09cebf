"""AdaNet's Estimators, which grow ensembles."""

import adanet
import numpy as np
import tensorflow as tf

from benchmarks.clients.case import from_arrays


def cases():
    return {"AutoEnsembleEstimator": auto_ensemble}


def auto_ensemble(folder):
    features = {"x": np.linspace(-1, 1, 32, dtype=np.float32)[:, None]}
    columns = [tf.feature_column.numeric_column("x")]
    head = tf.estimator.RegressionHead()

    def candidates(config):
        return {
            "linear": tf.estimator.LinearEstimator(head, columns, config=config),
            "dnn": tf.estimator.DNNEstimator(head, [4], columns, config=config),
        }

    config = tf.estimator.RunConfig(model_dir=folder, tf_random_seed=1)
    estimator = adanet.AutoEnsembleEstimator(head, candidates, max_iteration_steps=8, config=config)
    return from_arrays(estimator, features, features["x"] * 2, batch_size=8, steps=16)
