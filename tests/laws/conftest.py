"""Trainings that several laws look at: one for each kind of model and number of replicas."""

import functools

import keras
import pytest
from kinds import KERASES, classifier, config, examples


@pytest.fixture(scope="session")
def unbroken(mirrored, tmp_path_factory):
    """Gives an Estimator after 7 steps of 8 examples, with the checkpoints of steps 0, 4 and 7."""

    @functools.cache
    def train(kind, replicas=None):
        keras.utils.set_random_seed(7)
        settings = {"save_checkpoints_steps": 4} | ({"resume_input": True} if kind in KERASES else {})
        folder = tmp_path_factory.mktemp(f"{kind}-{replicas}")
        estimator = classifier(kind, config(folder, mirrored(replicas), **settings))
        return estimator.train(lambda: examples(8 // (replicas or 1)), max_steps=7)

    return train
