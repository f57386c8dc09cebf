"""Features or decoded images are kept from epoch to epoch by default, where that changes nothing but the time."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train.app.models import classifier
from estimator_train.app.running import image_cache

FEATURES = "outputs of the frozen layers in memory, at most 0.2 MB; --cache none keeps none"
IMAGES = "decoded images in memory, at most 7.2 MB; --cache none keeps none"
PHASES = "freeze=all epochs=2 lr=1e-2; freeze=bottom epochs=2 lr=1e-3"


@pytest.fixture
def planned(command, scans):
    """Returns the plan's line about the cache for flags, None if there is none."""

    def planned(*flags):
        data = ["--dataset", "images", "--data-dir", scans]
        code, output, errors = command(*([] if "--config" in flags else data), *flags, "--dry-run")
        assert (code, errors) == (0, "")
        return {line[:12].rstrip(): line[13:] for line in output.splitlines()}.get("cache")

    return planned


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ([], FEATURES),
        (["--weights", "none"], IMAGES),
        (["--model", "small_cnn"], IMAGES),
        (["--freeze", "100"], IMAGES),  # how much these layers give is unknown before they are built
        (["--augment", "flip"], IMAGES),
        (["--phases", "freeze=all epochs=2; freeze=none epochs=2"], IMAGES),
        (["--weights", "none", "--evaluate-every", "5"], IMAGES.replace("7.2", "9.6")),  # those of the evaluations
        (["--epochs", "1"], None),
        (["--cache", "none"], None),
        (["--cache", "memory"], IMAGES.partition(";")[0]),
        (["--freeze", "100", "--cache", "features"], FEATURES.partition(", at most")[0]),
    ],
)
def test_the_plan_says_which_cache_a_training_has_and_its_size(planned, flags, line):
    assert planned(*flags) == line


@pytest.mark.parametrize(("free", "line"), [(73e6, IMAGES), (71e6, None)])
def test_a_cache_by_default_takes_at_most_a_tenth_of_the_free_memory(planned, monkeypatch, free, line):
    monkeypatch.setattr(image_cache, "free_memory", lambda: free)
    assert planned("--weights", "none") == line


def test_a_task_of_a_cluster_keeps_nothing_by_default(planned, monkeypatch):
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}}))
    assert (planned(), planned("--cache", "features")) == (None, FEATURES.partition(";")[0])


@pytest.mark.parametrize(
    ("training", "chooses", "flags", "line"),
    [
        ({"cache": "features"}, True, [], FEATURES),
        ({"cache": None}, True, ["--epochs", "9"], FEATURES),  # it saw its images once
        ({"cache": "features"}, True, ["--augment", "flip"], IMAGES),
        ({"cache": None}, False, [], None),  # an earlier version, or --cache none
        ({"cache": "memory"}, False, [], IMAGES.partition(";")[0]),
        ({"cache": "memory"}, True, ["--cache", "none"], None),
    ],
)
def test_a_repeated_run_chooses_its_cache_again_if_it_chose_before(
    planned, scans, tmp_path, training, chooses, flags, line
):
    settings = {"dataset": "images", "data_dir": str(scans), "model": "mobilenet_v2", "image_size": [224, 224]}
    settings |= {"batch_size": 32, "class_names": ["bright", "dark"]}
    about = {"settings": settings, "training": {"epochs": 5} | training, "chooses_cache": chooses}
    (tmp_path / "run.json").write_text(json.dumps(about))
    assert planned("--config", tmp_path / "run.json", *flags) == line


@pytest.fixture
def train(command, scans, monkeypatch):
    """Trains mobilenet_v2, with a backbone of two small layers, on 12 images, 3 steps an epoch, into a folder."""

    def application(build, image_size, weights):
        keras.utils.set_random_seed(4)  # pretrained weights are the same each time
        layers = [keras.layers.Conv2D(2, 3, activation="relu", name=name) for name in ("bottom", "top")]
        return keras.Sequential([keras.Input((*image_size, 3)), *layers], name="small")

    monkeypatch.setattr(classifier, "application", application)

    def train(folder, *flags):
        data = ["--dataset", "images", "--data-dir", scans, "--model", "mobilenet_v2", "--image-size", "32"]
        code, output, errors = command(*data, "--batch-size", "4", "--seed", "1", "--model-dir", folder, *flags)
        assert code == 0, errors
        return output

    return train


def values(folder):
    """Returns {name: value} of the weights and slots in the last checkpoint of a run."""
    reader = tf.train.load_checkpoint(str(folder))
    kinds = reader.get_variable_to_dtype_map()
    return {name: reader.get_tensor(name) for name, kind in kinds.items() if kind.is_floating}


def check_same(folder, other, **tolerance):
    first, second = values(folder), values(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(value, second[name], err_msg=name, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--replicas", "2"]], ids=["one device", "two replicas"])
def test_features_by_default_train_to_the_weights_without_a_cache(train, tmp_path, flags):
    by_default = train("default", "--epochs", "4", *flags)
    assert "\ncache        outputs of the frozen layers" in by_default
    assert "the pass through the frozen layers took" in by_default
    train("features", "--epochs", "4", "--cache", "features", *flags)
    train("none", "--epochs", "4", "--cache", "none", *flags)
    check_same(tmp_path / "default", tmp_path / "features", rtol=0, atol=0)
    check_same(tmp_path / "default", tmp_path / "none", rtol=1e-5, atol=1e-6)
    about = json.loads((tmp_path / "default" / "run.json").read_text())
    assert (about["training"]["cache"], about["chooses_cache"]) == ("features", True)


@pytest.mark.slow
def test_a_resumed_run_keeps_features_or_none_as_before(train, tmp_path):
    train("whole", "--epochs", "4", "--cache", "none")
    for folder, flags in (("default", []), ("none", ["--cache", "none"])):
        train(folder, "--epochs", "1", *flags)
        resumed = train(folder, "--resume", "--epochs", "4")
        assert ("\ncache        outputs of the frozen layers" in resumed) == (folder == "default")
        check_same(tmp_path / "whole", tmp_path / folder, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_phases_keep_the_decoded_images_and_train_the_same(train, tmp_path):
    assert "\ncache        decoded images in memory" in train("default", "--phases", PHASES)
    assert "\ncache " not in train("none", "--phases", PHASES, "--cache", "none")
    check_same(tmp_path / "default", tmp_path / "none", rtol=0, atol=0)
