"""Advice names only flags that the run lacks and could have on this machine."""

import dataclasses

import pytest
import tensorflow as tf

from estimator_train.app import datasets
from estimator_train.app.running.advice import not_for
from estimator_train.app.runs.spec import Training


@pytest.fixture
def machine(monkeypatch):
    """Pretends that the machine has GPUs of a compute capability."""

    def pretend(gpus, capability=(9, 0)):
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [f"{kind}:{n}" for n in range(gpus)])
        monkeypatch.setattr(
            tf.config.experimental, "get_device_details", lambda gpu: {"compute_capability": capability}
        )

    pretend(2)
    return pretend


@pytest.fixture
def advised(settings, machine):
    """Returns the flags of advice that are left for a run on `scans`."""
    data = datasets.open_dataset("images", settings.data_dir)
    every = {"--cache", "--cache features", "--fast", "--mixed-precision", "--recompute", "--gpus", "--batch-size"}
    every |= {"--accumulate-steps", "--evaluate-every", "--async-checkpoints", "--save-checkpoints-steps"}

    def advised(training=None, data=data, **changes):
        changed = dataclasses.replace(settings, **{"model": "mobilenet_v2"} | changes)
        given = Training(**{"epochs": 2, "evaluate_every": 5} | (training or {}))
        return every - not_for(changed, given, data)

    return advised


def test_a_plain_run_could_have_any_of_them(advised):
    assert len(advised()) == 11


@pytest.mark.parametrize(
    ("training", "changes", "lacking"),
    [
        ({"cache": "memory"}, {}, {"--cache"}),
        ({"cache": "features"}, {}, {"--cache", "--cache features"}),
        ({"augment": "flip"}, {}, {"--cache features"}),  # it changes the images that the layers see
        ({}, {"freeze": "none"}, {"--cache features"}),
        ({}, {"weights": "none"}, {"--cache features"}),
        ({}, {"model": "small_cnn"}, {"--cache features"}),
        ({"epochs": None}, {"phases": "freeze=all epochs=1"}, {"--cache features"}),
        ({}, {"fast": True}, {"--fast"}),
        ({"gpus": 2}, {}, {"--gpus"}),
        ({"jit_compile": True}, {}, {"--gpus"}),  # which is for one replica
        ({"replicas": 2}, {}, {"--gpus", "--mixed-precision"}),  # on the CPU
        ({"mixed_precision": "float16", "recompute": True}, {}, {"--mixed-precision", "--recompute"}),
        ({"async_checkpoints": True, "evaluate_every": None}, {}, {"--async-checkpoints", "--evaluate-every"}),
        ({}, {"batch_size": 12}, {"--batch-size"}),  # all training images
        ({"save_checkpoints_steps": 9, "accumulate_steps": 4}, {}, set()),  # another number may be better
        ({}, {"model": "/own.py:build"}, {"--mixed-precision", "--recompute"}),  # not every class of models has them
    ],
)
def test_what_a_run_has_or_refuses_is_no_advice(advised, training, changes, lacking):
    assert advised() - advised(training, **changes) == lacking


def test_an_input_fn_prepares_its_own_batches(advised):
    own = {"dataset": None, "data_dir": None, "input_fn": "a.py:f", "eval_input_fn": "a.py:g", "model": "a.py:m"}
    left = advised({"epochs": None}, data=None, **own, batch_size=None, class_names=())
    assert left.isdisjoint({"--cache", "--cache features", "--fast", "--batch-size"}) and "--gpus" in left


def test_images_that_are_no_files_have_no_cache(advised):
    data = datasets.open_dataset("fashion_mnist")
    assert advised() - advised(data=data, dataset="fashion_mnist") == {"--cache", "--cache features", "--fast"}


@pytest.mark.parametrize(
    ("gpus", "capability", "lacking"),
    [(0, None, {"--gpus", "--mixed-precision"}), (1, (8, 0), {"--gpus"}), (2, (7, 5), {"--mixed-precision"})],
)
def test_a_device_that_is_not_there_is_no_advice(advised, machine, gpus, capability, lacking):
    every = advised()
    machine(gpus, capability)
    assert every - advised() == lacking
