"""The command keeps the examples of an evaluation, and no accuracy of outputs that are not finite."""

import types

import numpy as np
import pytest

from estimator_train.app.running.evaluation import CollectPredictions


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_outputs_that_are_not_finite_have_no_metrics(task, capsys):
    class_names = () if task == "regression" else ("bright", "dark")
    examples = CollectPredictions(types.SimpleNamespace(task=task, class_names=class_names))
    examples.after_create_session(None, None)
    width = 1 if task == "regression" else 2
    outputs = {"dense": np.full((2, width), np.nan, "float32")}
    examples.after_run(None, types.SimpleNamespace(results=(np.eye(2, width, dtype="float32"), outputs)))
    given = {"loss": np.float32("nan"), "accuracy": np.float32(0.5), "global_step": 3}
    metrics, labels, _, result = examples.evaluation(given)
    assert (labels, result, metrics["global_step"]) == (None, None, 3) and np.isnan(metrics["accuracy"])
    line = "estimator_train: there are no metrics per class: the model gives numbers that are not finite\n"
    assert capsys.readouterr().err == line
