"""The last lines of a training judge it, and give advice that the run can follow."""

import dataclasses

import pytest
import tensorflow as tf

from estimator_train._engine.host.cluster_task import ClusterTask
from estimator_train.app import datasets
from estimator_train.app.running.planned_run import PlannedRun
from estimator_train.app.running.result import Result, _kept_line, _too_short, diagnosis
from estimator_train.app.runs.progress import Progress
from estimator_train.app.runs.spec import Training


@pytest.fixture
def run(settings, tmp_path):
    data = datasets.open_dataset("images", settings.data_dir)
    return PlannedRun(settings, Training(max_steps=2), data, str(tmp_path / "run"), ClusterTask(), "normal", False, {})


def test_a_run_that_was_too_short_to_judge_says_so(run):
    short, learned = (Result("model.ckpt-2", {"accuracy": accuracy}, 2, None) for accuracy in (0.5, 0.8))
    assert _too_short(run, short) == (
        "step 2 is too early to judge this model: its accuracy of 0.5000 is nearer to the 0.5000 of always answering "
        "one class than to 1; give epochs=100, some 300 steps"
    )
    assert _too_short(run, learned) is _too_short(run, dataclasses.replace(short, last_step=300)) is None
    assert _too_short(run, dataclasses.replace(short, metrics={"accuracy": 0.75})) is None  # nearer to neither


def test_a_short_run_with_phases_or_that_stopped_gets_no_advice_of_epochs(run):
    short = Result("model.ckpt-2", {"accuracy": 0.5}, 2, None)
    longer = dataclasses.replace(run, training=Training(epochs=100))
    assert _too_short(longer, short).endswith("of always answering one class than to 1")
    phases = dataclasses.replace(run.settings, phases="freeze=all epochs=1")
    in_phases = dataclasses.replace(run, settings=phases, training=Training(), progress=Progress(ended_phases=(2,)))
    assert _too_short(in_phases, short).endswith("to 1; give the phases more epochs, some 300 steps in all")


@pytest.mark.parametrize(("gpus", "advice"), [(0, ""), (1, " a larger batch_size, for as many steps.")])
def test_the_diagnosis_suggests_only_what_helps_on_this_machine(run, monkeypatch, gpus, advice):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [f"{kind}:{n}" for n in range(gpus)])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {})
    timing = {"input_wait_share": 0.0, "examples_per_second": 4.0, "seconds": 20.0}
    timing |= {"checkpoint_seconds": 0.0, "evaluation_seconds": 0.0}
    input_fn = run.data.eval_input_fn(image_size=(24, 32), batch_size=1)
    said = diagnosis(timing, run.settings, Training(), run.data, input_fn)
    assert said.partition("Try:")[2] == advice  # small_cnn has no frozen layers, and the machine not two GPUs


def test_the_best_checkpoint_is_named_without_its_metrics(run, tmp_path):
    (tmp_path / "model.ckpt-2.eval_result.json").write_text("{")
    assert "with the loss n/a; evaluate, predict" in _kept_line(run, f"{tmp_path}/model.ckpt-2", "loss")
