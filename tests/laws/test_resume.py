"""A training that is resumed equals one that was never stopped, to the bit."""

import keras
import numpy as np
import pytest
from kinds import KERASES, classifier, config, each_kind, examples, variables
from runs import copy_as_of
from slow_cases import slow


@pytest.mark.smoke
@each_kind("tf_keras", "model_fn")
@pytest.mark.parametrize("replicas", [None, slow(2)])
def test_a_resumed_training_equals_an_unbroken_one(kind, replicas, unbroken, mirrored, tmp_path):
    whole = unbroken(kind, replicas)
    keras.utils.set_random_seed(1)  # a seed no longer matters with a checkpoint
    folder = copy_as_of(4, whole.model_dir, tmp_path / "resumed")
    # An input_fn for a model_fn has to skip what has been read.
    settings, skipped = ({"resume_input": True}, 0) if kind in KERASES else ({}, 4 * (replicas or 1))
    resumed = classifier(kind, config(folder, mirrored(replicas), steps_per_loop=1, **settings))
    resumed.train(lambda: examples(8 // (replicas or 1)).skip(skipped), max_steps=7)
    expected, found = variables(whole), variables(resumed)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        # Each replica continues with the mean of all replicas' averages; Keras 3 takes that mean at every step.
        apart = 1e-6 if replicas and "moving_" in name and kind != "keras3" else 0
        np.testing.assert_allclose(found[name], value, rtol=0, atol=apart, err_msg=name)
