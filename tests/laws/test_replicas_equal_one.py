"""Replicas train as one does on the batches of all of them."""

import keras
import numpy as np
import pytest
from kinds import KINDS, classifier, config, examples, variables
from models import scalars
from runs import copy_as_of


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "replicas"), [*((kind, 2) for kind in KINDS), ("model_fn", 3)])
def test_replicas_train_as_one_does_on_their_batches(kind, replicas, mirrored, tmp_path):
    keras.utils.set_random_seed(7)
    one = classifier(kind, config(tmp_path / "one", save_summary_steps=1), is_plain=True)
    one.train(lambda: examples(24), max_steps=4)
    folder = copy_as_of(0, one.model_dir, tmp_path / "together")  # with its initial values
    for path in folder.glob("events*"):
        path.unlink()
    together = classifier(kind, config(folder, mirrored(replicas), save_summary_steps=1), is_plain=True)
    together.train(lambda: examples(24 // replicas), max_steps=4)
    expected, found = variables(one), variables(together)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    # The logged loss covers the batches of all replicas. A head logs that of the first, which alone writes summaries.
    for tag in {"canned": [], "model_fn": ["loss"]}.get(kind, ["loss", "accuracy"]):
        logged = scalars(one.model_dir, tag)
        assert len(logged) == 4
        assert scalars(folder, tag) == [(step, pytest.approx(value, rel=1e-6)) for step, value in logged]
