"""--recipe trains a recipe with the flags that it takes, and resumes its run; `recipes` lists the recipes."""

import json
from pathlib import Path

import pytest

from estimator_train.app import recipes
from estimator_train.app.recipes import unet3d


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(unet3d, "_POOLINGS", 1)
    monkeypatch.setattr(unet3d, "EVAL_EXAMPLES", 2)


@pytest.mark.slow
def test_a_recipe_is_trained_and_gone_on_with(command, tmp_path):
    code, output, errors = command("--recipe", "unet3d", "--volume", 8, "--max-steps", 2, "--split-over", 2)
    assert code == 0
    assert "step 2/2: loss" in errors
    assert "trained 2 steps" in output and "evaluated runs/unet3d/model.ckpt-2: loss" in output
    told = json.loads((tmp_path / "runs" / "unet3d" / "run.json").read_text())
    assert told["settings"] == {"recipe": "unet3d", "volume": 8, "max_steps": 2, "split_over": 2}
    assert [device.split()[0] for device in told["devices"]] == ["CPU:0", "CPU:1"]
    assert told["command"] == "estimator_train --recipe unet3d --volume 8 --max-steps 2 --split-over 2"

    code, output, _ = command("--model-dir", "runs/unet3d", "--resume", "--max-steps", 3, "--replicas", 2, "--quiet")
    assert (code, output.count("\n")) == (0, 1)
    assert output.startswith("evaluated runs/unet3d/model.ckpt-3: loss")


def test_a_recipe_that_counts_epochs_keeps_its_number_of_replicas(command, tmp_path):
    folder = tmp_path / "runs" / "cyclegan"
    folder.mkdir(parents=True)
    run = {"settings": {"recipe": "cyclegan", "epochs": 8}, "training": {"gpus": None, "replicas": 2}}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-3"\n')
    again = ["--model-dir", folder, "--resume", "--dry-run"]
    code, _, errors = command(*again, "--replicas", 3)
    assert code == 2 and "the run has had 2 replicas until now, and would have 3; resume with as many" in errors
    assert [command(*again, *flags)[0] for flags in ([], ["--replicas", 3, "--max-steps", 5])] == [0, 0]
    (folder / "run.json").write_text(json.dumps(run | {"settings": {"recipe": "unet3d", "volume": 8}}))
    assert command(*again, "--replicas", 3)[0] == 0  # it has steps only


def test_wrong_settings_leave_nothing_behind(command, tmp_path):
    code, _, errors = command("--recipe", "unet3d", "--volume", 7)
    assert code == 2
    assert "the side of the volume must be a multiple of 2 voxels, got 7" in errors.splitlines()[-1]
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_says_what_would_be_done(command, tmp_path):
    code, output, _ = command("--recipe", "unet3d", "--volume", 16, "--replicas", 2, "--dry-run")
    assert (code, output.split()) == (0, ["recipe", "unet3d", "volume", "16", "replicas", "2", "folder", "runs/unet3d"])
    assert not (tmp_path / "runs").exists()


def test_recipes_are_listed(command):
    _, output, _ = command("recipes")
    listed = dict(line.split(maxsplit=1) for line in output.splitlines())
    assert listed["unet3d"] == "a 3-D U-Net that segments volumes, on one device, on replicas or split over devices"
    programs = Path(recipes.__file__).parent.glob("*.py")
    assert listed.keys() == {program.stem for program in programs if "\ndef train(" in program.read_text()}
    for name in listed:
        code, output, _ = command("--recipe", name, "--dry-run")
        assert code == 0 and f"runs/{name}" in output
