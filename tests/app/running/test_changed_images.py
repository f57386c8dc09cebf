"""The command says when images of a run have changed sides, and when one that was trained on is evaluated."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image
from pretended_checkpoints import pretend

from estimator_train.app import datasets
from estimator_train.app.datasets.held_out import BY_RANK, holding_out_by
from estimator_train.app.running.changed_images import keep_sides
from estimator_train.app.runs import predictions_file, run_file, sides_file
from estimator_train.app.runs.spec import Settings

ABOUT = {"dataset": "images", "model": "small_cnn", "image_size": [16, 16], "batch_size": 4, "task": "classification"}


@pytest.fixture
def folder(tmp_path):
    """A folder of two classes with thirty noisy images each."""
    for label in range(2):
        (tmp_path / "data" / "ab"[label]).mkdir(parents=True)
        for index in range(30):
            pixels = np.random.default_rng([label, index]).integers(0, 256, (16, 16), "uint8")
            Image.fromarray(pixels).save(tmp_path / "data" / "ab"[label] / f"{index}.png")
    return tmp_path / "data"


@pytest.fixture
def trained_on(folder, tmp_path):
    """Leaves a run on the folder at step 4, as today or as by a version before, and returns its dataset."""

    def leave(rule="name"):
        with holding_out_by(rule):
            data = datasets.open_dataset("images", folder)
        settings = ABOUT | {"data_dir": str(folder), "class_names": ["a", "b"]}
        counts = {"train": data.train_examples, "eval": data.eval_examples, "classes": data.class_counts()}
        run = tmp_path / "run"
        if rule == "name":
            settings |= {"held_out_by": rule}
            run.mkdir()
            sides_file.save(run, data, is_new=True)
        run_file.save(run, settings, training={"max_steps": 8}, last_step=8, data=counts)
        if rule != "name":
            ones = np.ones([data.eval_examples, 2])
            predictions_file.write(run, data, data.class_names, np.zeros(len(ones), int), ones)
        pretend(run, 4)
        return data

    return leave


@pytest.fixture
def said(command):
    """Returns what a resumed run says on standard error before it starts."""

    def said(*flags):
        code, _, errors = command("--model-dir", "run", "--resume", "--dry-run", *flags)
        assert code == 0
        return errors

    return said


def test_a_resumed_run_says_which_images_have_changed(folder, trained_on, said):
    data = trained_on()
    assert said() == ""
    for path in data.eval.paths[:2]:
        (folder / path).unlink()
    moved = shutil.copytree(folder, folder.parent / "moved")
    assert said() == "estimator_train: the images of run have changed since it was trained: 2 are gone\n"
    assert said("--data-dir", moved) == said()


def test_images_that_may_have_new_names_are_said_to_be(folder, trained_on, said):
    for index, path in enumerate(trained_on().train.paths[:20]):
        shutil.move(path, folder / "a" / f"renamed {index}.png")
    errors = said()
    assert "20 are new, 20 are gone" in errors
    assert "to choose or evaluate on may have been trained on, such as under other names" in errors


def test_a_run_of_before_keeps_its_sides_and_says_what_is_known(folder, trained_on, said, command):
    data = trained_on(BY_RANK)
    assert said() == ""
    code, output, _ = command("--config", "run/run.json", "--model-dir", "again", "--dry-run")
    assert code == 0 and "a 24 + 6, b 24 + 6" in output
    for path in data.eval.paths[:2]:
        (folder / path).unlink()
    assert said() == (
        "estimator_train: the images of run have changed since it was trained: 46 to train on instead of 48; "
        "2 to evaluate on were not evaluated then; which images it has trained on is not known, and some of these may "
        "be evaluated now\n"
    )
    with holding_out_by(BY_RANK):
        data = datasets.open_dataset("images", folder)
    keep_sides(str(folder.parent / "run"), Settings(**ABOUT, class_names=()), data, is_new=False)
    assert said() == (
        "estimator_train: the images of run have changed since it was trained: 12 to choose or evaluate on may have "
        "been trained on, such as under other names\n"
    )


def test_images_of_a_run_that_moved_to_its_evaluation_are_counted(folder, trained_on, said):
    data = trained_on()
    run = folder.parent / "run"
    text = (run / "sides.csv").read_text()
    (name,) = sides_file.named([next(iter(data.eval.own_names()))])
    (run / "sides.csv").write_text(text.replace(f"eval,{name}\n", f"train,{name}\n"))
    assert said() == (
        "estimator_train: the images of run have changed since it was trained: 1 is on another side; 1 of the "
        f"{data.eval_examples} to evaluate on had been trained on, so the numbers are too good\n"
    )


def test_sides_that_share_files_are_named_before_training(folder, command):
    for side in ("train", "test"):
        shutil.copytree(folder, folder.parent / "three" / side)
    for path in (folder.parent / "three" / "test").glob("*/*"):
        path.write_bytes(path.read_bytes() + b"other")
    shutil.copytree(folder, folder.parent / "three" / "val")
    code, _, errors = command("--data-dir", "three", "--model", "small_cnn", "--dry-run")
    assert (code, errors) == (
        0,
        "estimator_train: images: 60 of the 60 images to choose on are the same files as images to train on, so the "
        "numbers are too good\n",
    )


@pytest.mark.slow
def test_evaluate_says_which_images_were_trained_on(folder, command):
    flags = ["--model", "small_cnn", "--image-size", "16", "--max-steps", "1", "--model-dir", "run", "--quiet"]
    assert command("--data-dir", folder, *flags)[0] == 0
    train = [row for row in (folder.parent / "run" / "sides.csv").read_text().splitlines() if row.startswith("train,")]
    evaluate = ["evaluate", "--model-dir", "run", "--json"]
    code, output, errors = command(*evaluate, "--data-dir", folder)
    assert code == 0 and json.loads(output)
    assert f"{len(train)} of the 60 images to evaluate on had been trained on, so the numbers are too good" in errors
    (folder / train[0].removeprefix("train,")).unlink()
    for arguments in (evaluate, ["report", "--model-dir", "run"]):
        assert "the images of run have changed since it was trained: 1 is gone\n" in command(*arguments)[2]
