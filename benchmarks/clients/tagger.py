"""A tagger in the way of tf_ner's: LSTMs in both directions under a conditional random field, for TensorFlow 1."""

import os

import numpy as np
import tensorflow as tf

from benchmarks.clients.case import Case
from tests.data.programs import tagger


def cases():
    return {"Estimator": tagging}


def tagging(folder):
    os.makedirs(folder)
    config = tf.estimator.RunConfig(tf_random_seed=1)
    estimator = tf.estimator.Estimator(tagger.model_fn, folder, config, tagger.made_params(folder))
    words = np.full([len(tagger.SENTENCES), 5], "<pad>", object)
    for row, (sentence, _) in zip(words, tagger.SENTENCES, strict=True):
        row[: len(sentence)] = sentence
    features = {"words": words, "nwords": np.array([len(sentence) for sentence, _ in tagger.SENTENCES], np.int32)}
    return Case(estimator, lambda: tagger.input_fn(None), tagger.input_fn, tagger.input_fn, features, steps=24)
