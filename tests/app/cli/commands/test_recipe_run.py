"""A training of a recipe is resolved from its flags, or from its run, whose own settings are fixed."""

import json

import pytest


@pytest.fixture
def run(tmp_path):
    """The directory of a run of unet3d."""
    settings = {"recipe": "unet3d", "volume": 8, "max_steps": 2, "split_over": 2}
    replicas = {"gpus": None, "replicas": None, "all_reduce": None}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps({"settings": settings, "training": replicas}))
    (tmp_path / "run" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')
    return "run"


def test_a_resumed_recipe_may_train_longer_and_on_other_devices(command, run):
    code, output, errors = command("--model-dir", run, "--resume", "--max-steps", 9, "--replicas", 2, "--dry-run")
    assert (code, errors) == (0, "")
    assert output.split() == ["recipe", "unet3d", "volume", "8", "max_steps", "9", "replicas", "2", "folder", "run"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--volume", 16], "the run in run has volume 8, not 16; continue with the same, or give another --model-dir"),
        (["--seed", 3], "the run in run has seed its default, not 3"),
        (["--recipe", "segmentation"], "describes a run of the recipe unet3d; give another --model-dir"),
        (["--dataset", "synthetic_oct"], "describes a run of the recipe unet3d; give another --model-dir"),
        (["--find-learning-rate"], "--find-learning-rate does not keep what it trains; leave out --resume"),
    ],
)
def test_other_settings_of_a_resumed_recipe_are_refused(command, run, flags, message):
    code, _, errors = command("--model-dir", run, "--resume", *flags, "--dry-run")
    assert code == 2 and message in errors


def test_a_flag_that_a_recipe_does_not_take_is_refused_with_those_it_takes(command):
    code, _, errors = command("--recipe", "unet3d", "--find-learning-rate", "--dry-run")
    assert code == 2
    assert "the recipe unet3d takes no --find-learning-rate; it takes --volume, --filters, --batch-size," in errors
    assert errors.endswith("--split-over, --gpus, --replicas, --all-reduce\n")
