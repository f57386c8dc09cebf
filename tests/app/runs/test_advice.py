"""Advice names only settings that the run lacks and could have on this machine."""

import dataclasses

import pytest

from estimator_train.app import datasets
from estimator_train.app.runs.advice import ADVICE, lines_for, unfit_for
from estimator_train.app.runs.spec import Training

TWO_GPUS = [(9, 0), (9, 0)]


@pytest.fixture
def advised(settings):
    """Returns the names of the advice that is left for a run on `scans`, on GPUs of these compute capabilities."""
    data = datasets.open_dataset("images", settings.data_dir)

    def advised(training=None, data=data, gpus=TWO_GPUS, **changes):
        changed = dataclasses.replace(settings, **{"model": "mobilenet_v2"} | changes)
        given = Training(**{"epochs": 2, "evaluate_every": 5} | (training or {}))
        return {each.name for each in ADVICE if each.name} - unfit_for(changed, given, data, gpus)

    return advised


def test_a_plain_run_could_have_any_of_them(advised):
    assert len(advised()) == 11


@pytest.mark.parametrize(
    ("training", "changes", "lacking"),
    [
        ({"cache": "memory"}, {}, {"cache"}),
        ({"cache": "features"}, {}, {"cache", "cache=features"}),
        ({"augment": "flip"}, {}, {"cache=features"}),  # it changes the images that the layers see
        ({}, {"freeze": "none"}, {"cache=features"}),
        ({}, {"weights": "none"}, {"cache=features"}),
        ({}, {"model": "small_cnn"}, {"cache=features"}),
        ({"epochs": None}, {"phases": "freeze=all epochs=1"}, {"cache=features"}),
        ({}, {"fast": True}, {"fast"}),
        ({"gpus": 2}, {}, {"gpus"}),
        ({"jit_compile": True}, {}, {"gpus"}),  # which is for one replica
        ({"mixed_precision": "float16", "recompute": True}, {}, {"mixed_precision", "recompute"}),
        ({"async_checkpoints": True, "evaluate_every": None}, {}, {"async_checkpoints", "evaluate_every"}),
        ({}, {"batch_size": 12}, {"batch_size"}),  # all training images
        ({"save_checkpoints_steps": 9, "accumulate_steps": 4}, {}, set()),  # another number may be better
        ({}, {"model": "/own.py:build"}, {"mixed_precision", "recompute"}),  # not every class of models has them
    ],
)
def test_what_a_run_has_or_refuses_is_no_advice(advised, training, changes, lacking):
    assert advised() - advised(training, **changes) == lacking


def test_an_input_fn_prepares_its_own_batches(advised):
    own = {"dataset": None, "data_dir": None, "input_fn": "a.py:f", "eval_input_fn": "a.py:g", "model": "a.py:m"}
    left = advised({"epochs": None}, data=None, **own, batch_size=None, class_names=())
    assert left.isdisjoint({"cache", "cache=features", "fast", "batch_size"}) and "gpus" in left


def test_images_that_are_no_files_have_no_cache(advised):
    data = datasets.open_dataset("fashion_mnist")
    assert advised() - advised(data=data, dataset="fashion_mnist") == {"cache", "cache=features", "fast"}


@pytest.mark.parametrize(
    ("gpus", "lacking"),
    [
        ([], {"gpus", "mixed_precision"}),
        ([(8, 0)], {"gpus"}),
        ([(7, 5), (7, 5)], {"mixed_precision"}),
        ([(8, 0), None], {"mixed_precision"}),
    ],
)
def test_a_device_that_is_not_there_is_no_advice(advised, gpus, lacking):
    assert advised() - advised(gpus=gpus) == lacking


def test_every_advice_has_words_where_it_is_given():
    for each in ADVICE:
        assert bool(each.words) == bool(each.limit) and (each.limit or each.saves_memory)
    assert lines_for("evaluation") == ["evaluate_every with more steps"]
    assert lines_for("input", ["cache"])[0] == "fast, if the files are much larger than image_size"
