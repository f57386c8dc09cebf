"""--phases and --freeze: a command fine-tunes in phases, and resumes in the right one."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from estimator_train._engine.checkpoints import VALUE, slots
from estimator_train.app.models import classifier
from estimator_train.app.running import training
from estimator_train.app.runs.stored_run import StoredRun

PHASES = "freeze=all epochs=1 lr=1e-2; freeze=bottom epochs=2 lr=1e-3"
IN_VAIN = "freeze=all epochs=1 lr=1e-12; freeze=bottom epochs=2 lr=1e-12"  # the loss stays the same
PLACES = {name: f"layer_with_weights-0/layer_with_weights-{index}" for index, name in enumerate(("bottom", "top"))}
PLACES["head"] = "layer_with_weights-1"
EARLY = ["--phases", IN_VAIN, "--evaluate-every", "1", "--early-stopping", "1"]


@pytest.fixture
def train(command, tmp_path, monkeypatch):
    """Trains mobilenet_v2 on 12 images, with a backbone of two small layers, in steps of 4 images: 3 an epoch."""
    # Arrays, because files take as long to trace as such a model does, and each phase and evaluation traces both.
    labels = np.arange(12) % 2
    images = np.random.default_rng(3).normal(60 + 130 * labels[:, None, None, None], 20, (12, 16, 16, 3))
    images = np.clip(images, 0, 255).astype(np.uint8)
    np.savez(tmp_path / "images.npz", x_train=images, y_train=labels, x_test=images[:4], y_test=labels[:4])

    def application(build, image_size, weights):
        keras.utils.set_random_seed(4)  # pretrained weights are the same each time
        layers = [keras.layers.Conv2D(2, 3, activation="relu", name=name) for name in ("bottom", "top")]
        return keras.Sequential([keras.Input((*image_size, 3)), *layers], name="small")

    monkeypatch.setattr(classifier, "application", application)

    def run(*flags):
        data = ["--dataset", "npz", "--data-dir", "images.npz", "--model", "mobilenet_v2", "--image-size", "32"]
        return command("train", *data, "--batch-size", "4", "--seed", "1", "--save-checkpoints-steps", "1", *flags)

    return run


def weights(prefix, name):
    """Returns a list of a layer's values in a checkpoint, the kernel first."""
    return tf.train.load_checkpoint(str(prefix)).get_tensor(f"{PLACES[name]}/kernel{VALUE}")


def average(prefix, name):
    """Returns the moving average of the kernel of a layer in a checkpoint."""
    averages, reader = slots.averages(str(prefix), ()), tf.train.load_checkpoint(str(prefix))
    return reader.get_tensor(averages[f"{PLACES[name]}/kernel"] + VALUE)


def is_same(folder, steps, name):
    return np.array_equal(*(weights(folder / f"model.ckpt-{step}", name) for step in steps))


@pytest.mark.slow
def test_a_killed_run_with_phases_resumes_in_its_phase(train, command, tmp_path):
    code, output, errors = train("--model-dir", "whole", "--phases", PHASES)
    assert code == 0, errors
    run = tmp_path / "whole"
    lines = [line for line in output.splitlines() if line.startswith("phase")]
    assert lines == [
        f"phases       {PHASES}",
        "phase freeze=all, to step 3",
        "phase freeze=bottom, to step 9",
    ]
    settings = json.loads((run / "run.json").read_text())
    assert settings["settings"]["phases"] == PHASES and settings["last_step"] == 9
    # The five newest checkpoints are kept; here they are from the second phase.
    assert is_same(run, (5, 9), "bottom") and not is_same(run, (5, 9), "top") and not is_same(run, (5, 9), "head")

    # Simulate a kill after step 6, in the second phase.
    killed = tmp_path / "killed"
    shutil.copytree(run, killed)
    for path in killed.glob("model.ckpt-[789]*"):
        path.unlink()
    (killed / "checkpoint").unlink()
    code, output, errors = command("--model-dir", "killed", "--resume")
    assert code == 0, errors
    assert "phase freeze=bottom, to step 9" in output and "phase freeze=all, to step" not in output
    for name in ("bottom", "top", "head"):
        ours, theirs = (weights(folder / "model.ckpt-9", name) for folder in (killed, run))
        np.testing.assert_allclose(ours, theirs, atol=1e-6)

    # A finished run is evaluated again, and continues in an additional phase.
    code, output, errors = train("--model-dir", "killed", "--resume", "--phases", f"{PHASES}; freeze=none epochs=1")
    assert code == 0, errors
    assert "phase freeze=none, to step 12" in output and not is_same(killed, (9, 12), "bottom")
    for arguments in (["evaluate", "--all"], ["export", "--format", "keras", "--out", "exported"]):
        code, _, errors = command(arguments[0], "--model-dir", "killed", *arguments[1:])
        assert code == 0, errors
    exported = keras.models.load_model(tmp_path / "exported" / "model.keras")
    assert all(layer.trainable for layer in exported.get_layer("small").layers)


def test_a_phase_with_an_unknown_layer_is_refused_before_any_training(train, tmp_path):
    code, _, errors = train("--model-dir", "run", "--phases", "freeze=all epochs=1; freeze=botom epochs=1")
    assert code == 2
    assert "freeze=botom: small has no such layer; pass all, none, a number, or bottom" in errors.splitlines()[-1]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_each_phase_trains_its_layers_and_is_evaluated_on_the_way(train, command, tmp_path):
    phases = ["--phases", "freeze=all epochs=1 lr=1e-2; freeze=1 epochs=1 lr=1e-2", "--schedule", "cosine"]
    code, output, errors = train("--model-dir", "run", *phases, "--ema", "0.5", "--evaluate-every", "2", "--keep-best")
    assert code == 0, errors
    run = tmp_path / "run"
    lines = [line for line in output.splitlines() if line.startswith("phase freeze")]
    assert lines == ["phase freeze=all, to step 3", "phase freeze=1, to step 6"]
    assert is_same(run, (2, 6), "bottom") and is_same(run, (2, 3), "top") and not is_same(run, (3, 6), "top")
    lines = (run / "evaluations.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps[:4] == [2, 3, 4, 6]  # then that of the kept checkpoint, unless it is the last one
    assert list((run / "export" / "best_checkpoint").glob("*.index"))

    # The next phase continues averages, and begins those of layers that it unfreezes at their weights.
    border, later = run / "model.ckpt-3", run / "model.ckpt-4"
    before = {"head": average(border, "head"), "top": weights(border, "top")}
    for name in before:
        expected = (before[name] + weights(later, name)) / 2
        np.testing.assert_allclose(average(later, name), expected, atol=1e-6)
    assert not np.allclose(before["head"], weights(border, "head"))
    code, _, errors = command("evaluate", "--model-dir", "run", "--all")  # of both phases
    assert code == 0, errors


def lines_of_phases(output):
    return [line for line in output.splitlines() if line.startswith(("phase freeze", "stopped"))]


@pytest.mark.slow
def test_a_phase_that_stops_early_has_ended_for_a_resumed_run_too(train, command, tmp_path, monkeypatch):
    code, output, errors = train("--model-dir", "whole", *EARLY)
    assert code == 0, errors
    second = ["phase freeze=bottom, to step 8", "stopped at step 4: the loss did not fall in 1 evaluations"]
    assert lines_of_phases(output) == ["phase freeze=all, to step 3", "phase freeze=all stopped at step 2", *second]
    assert StoredRun("whole").about["last_step"] == 8 and StoredRun("whole").phase_ends == [2]

    # Before run.json has the end of the phase.
    _train_killed_in("_at_next_phase", 1, train, monkeypatch, "before")
    code, output, errors = command("--model-dir", "before", "--resume")
    assert code == 0, errors
    assert StoredRun("before").phase_ends == [2]
    assert lines_of_phases(output)[1:] == ["phase freeze=all stopped at step 2", *second]
    for name in ("bottom", "top", "head"):
        assert np.array_equal(*(weights(tmp_path / run / "model.ckpt-4", name) for run in ("whole", "before")))

    # After it; another patience ends no phase another time.
    _train_killed_in("_stages", 2, train, monkeypatch, "after")
    code, output, errors = command("--model-dir", "after", "--resume", "--early-stopping", "3")
    assert code == 0, errors
    assert StoredRun("after").phase_ends == [2]
    assert lines_of_phases(output)[0] == "phase freeze=bottom, to step 8" and "stopped at step 6" in output


def _train_killed_in(name, number, train, monkeypatch, run):
    """Ends a training in the call of so high a number of a function of `training`, in its first phase."""
    unkilled, calls = getattr(training, name), []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == number:
            raise SystemExit(9)
        return unkilled(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training, name, killed)
        code, output, _ = train("--model-dir", run, *EARLY)
    assert code == 9 and "phase freeze=bottom" not in output
