"""Examples in docstrings run, one after the other in this process, and print what they say."""

import doctest
import importlib
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train.app import datasets, models
from estimator_train.app.datasets import synthetic_oct
from estimator_train.app.runs import evaluations, predictions_file, run_file

PACKAGE = Path(et.__file__).parent
FILES = [path.relative_to(PACKAGE.parent) for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text()]
MODULES = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in FILES]


@pytest.fixture(scope="module")
def model():
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    return model


def leave_a_run(folder):
    """Writes what the command leaves of a run that has kept its best checkpoint."""
    settings, counts = {"model": "small_cnn", "class_names": ["cat", "dog"]}, {"cat": 4, "dog": 4}
    data = {"train": 8, "eval": 8, "classes": {"train": counts, "eval": counts}}
    run_file.save(folder, settings, training={"keep_best": True}, data=data, last_step=4)
    for step, place in ((2, "export/best_checkpoint"), (4, "")):
        (folder / place).mkdir(parents=True, exist_ok=True)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.train.get_or_create_global_step().assign(step))
            tf.compat.v1.train.Saver().save(session, f"{folder / place}/model.ckpt", step)
    for step, name in ((2, None), (4, None), (2, "final")):
        entry = evaluations.entry_of(f"model.ckpt-{step}", {"loss": 0.5, "global_step": step}, name=name)
        evaluations.append(folder, entry)
    predictions_file.write(folder, None, ("cat", "dog"), np.zeros(8, int), np.eye(2)[[0, 1] * 4])
    times = {"steps_per_second": 8.0, "examples_per_second": 64.0, "input_wait_share": 0.1}
    (folder / "timing.json").write_text(json.dumps(times))


@pytest.fixture
def names(model, tmp_path, monkeypatch):
    """What an example may use without making it: a small Estimator and its input_fns."""
    monkeypatch.chdir(tmp_path)
    scan = np.zeros((96, 96), np.uint8)
    monkeypatch.setattr(synthetic_oct, "draw_image", lambda class_name, rng: scan)  # a thousand take ten seconds
    x = np.float32([[0], [1], [2], [3]])
    return {
        "datasets": datasets,
        "et": et,
        "keras": keras,
        "models": models,
        "np": np,
        "os": os,
        "tf": tf,
        "estimator": et.model_to_estimator(model, config=et.RunConfig("estimator", save_checkpoints_steps=10)),
        "train_input_fn": et.input_fns.arrays(x, 2 * x + 1, batch_size=4, num_epochs=None),
        "eval_input_fn": et.input_fns.arrays(x, 2 * x + 1, batch_size=4),
    }


class Finder(doctest.DocTestFinder):
    """Also finds what names the public module where users find it as its own."""

    def _from_module(self, module, object):
        own = re.compile(rf"^(class|def) {getattr(object, '__name__', '-')}\b", re.MULTILINE)
        return super()._from_module(module, object) or bool(own.search(Path(module.__file__).read_text()))


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_run_and_print_what_they_say(module, names, tmp_path, capsys):
    if "run" in module:
        leave_a_run(tmp_path / "runs" / "scans")
    examples = [test for test in Finder().find(importlib.import_module(module)) if test.examples]
    assert examples
    runner = doctest.DocTestRunner()
    for test in examples:
        test.globs.update(names)
        runner.run(test)
    assert runner.failures == 0, capsys.readouterr().out
