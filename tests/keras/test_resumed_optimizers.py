"""Every optimizer of both Kerases: 3 steps, a new process and 3 more give the numbers of 6, which are those of fit."""

from pathlib import Path

import numpy as np
import pytest
import tf_keras as keras
import warm_python

import estimator_train as et

_PROGRAM = Path(__file__).parents[1] / "helpers" / "resumed_optimizers.py"


@pytest.mark.slow
def test_every_optimizer_resumes_with_the_numbers_of_an_unbroken_training(tmp_path):
    pytest.importorskip("keras", minversion="3")
    first, second = (warm_python.run([_PROGRAM, tmp_path / "runs", step], tmp_path, timeout=600) for step in (3, 6))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert second.stdout == "" and second.stderr.count(" done") > 40


@pytest.mark.parametrize("replicas", [1, 2])
def test_nadam_resumes_with_the_numbers_of_an_unbroken_training(
    replicas, data, batches, mirrored, classifier, tmp_path
):
    def train(folder, *last_steps):
        for last_step in last_steps:
            keras.utils.set_random_seed(7)
            config = et.RunConfig(str(tmp_path / folder), resume_input=True, train_distribute=mirrored(replicas))
            estimator = et.model_to_estimator(classifier(keras.optimizers.Nadam(0.05)), config=config)
            estimator.train(batches(data, 16 // replicas), max_steps=last_step)
        names = [name for name in estimator.get_variable_names() if "layer" in name or "optimizer" in name]
        return [estimator.get_variable_value(name) for name in sorted(names)]

    for one, other in zip(train("whole", 6), train("halves", 3, 6), strict=True):
        np.testing.assert_array_equal(one, other)
