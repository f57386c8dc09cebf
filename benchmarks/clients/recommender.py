"""A recommender in the way of EasyRec's, which subclasses classes of tf.estimator and of its old modules."""

import tensorflow as tf

from benchmarks.clients.case import from_arrays
from tests.data.programs import ranker


def cases():
    return {"RankingEstimator": ranking}


def ranking(folder):
    config = tf.estimator.RunConfig(folder, tf_random_seed=1)
    estimator = ranker.RankingEstimator(ranker.columns(), config, {"hidden_units": [8, 4]})
    return from_arrays(estimator, *ranker.examples(), batch_size=16, steps=24)
