"""A resolved run is trained: run.json, checkpoints, evaluations and the last lines."""

import dataclasses
import json
import os

import pytest

from estimator_train._engine.host.cluster_task import ClusterTask
from estimator_train.app import datasets, models
from estimator_train.app.running.planned_run import PlannedRun
from estimator_train.app.running.training import run_training
from estimator_train.app.runs import run_file
from estimator_train.app.runs.spec import RunSpec, Training


@pytest.fixture
def run(settings, blank_plots, tmp_path):
    data = datasets.open_dataset("images", settings.data_dir)
    training = Training(max_steps=2)
    return PlannedRun(settings, training, data, str(tmp_path / "run"), ClusterTask(), "normal", False, {})


def changed(run, **training):
    return dataclasses.replace(run, training=dataclasses.replace(run.training, **training))


@pytest.mark.slow
def test_a_run_is_described_trained_evaluated_reported_and_continued(run, tmp_path, capsys):
    path = str(tmp_path / "initial.h5")
    models.build_model("small_cnn", image_size=run.settings.image_size, num_classes=2).save_weights(path)
    run = dataclasses.replace(run, settings=dataclasses.replace(run.settings, weights=path))
    assert run_training(run) == 0
    *lines, report, result = capsys.readouterr().out.splitlines()
    assert "training 122 weights" in lines
    assert report == f"the report is {run.model_dir}/report/report.html"
    assert result.startswith(f"evaluated {run.model_dir}/model.ckpt-2: loss ")
    assert run_file.spec_in(run.model_dir) == RunSpec(run.settings, run.training)
    with open(f"{run.model_dir}/run.json") as file:
        described = json.load(file)
    assert (described["last_step"], described["data"]["train"], described["trained_weights"]) == (2, 12, 122)

    # It continues without its file of initial weights.
    os.remove(path)
    longer = changed(run, max_steps=3)
    assert run_training(longer) == 0
    assert f"evaluated {run.model_dir}/model.ckpt-3: loss " in capsys.readouterr().out

    assert run_training(longer) == 0
    assert f"{run.model_dir} is already trained to step 3" in capsys.readouterr().out


@pytest.mark.slow
def test_evaluations_on_the_way_keep_the_best_and_end_the_training(run, capsys):
    patient = changed(run, max_steps=9, evaluate_every=1, early_stopping=1, keep_best=True, monitor="accuracy:min")
    assert run_training(patient) == 0
    output = capsys.readouterr().out
    assert "the accuracy did not fall in 1 evaluations" in output
    assert f"the best checkpoint is kept as {run.model_dir}/export/best_checkpoint/model.ckpt-" in output
    assert output.count("evaluated ") > 1


@pytest.mark.slow
def test_a_training_that_a_callback_stops_is_not_said_to_stop_early(run, tmp_path, capsys):
    (tmp_path / "own.py").write_text(
        "import tf_keras as keras\n"
        "class Stop(keras.callbacks.Callback):\n"
        "    def on_epoch_end(self, epoch, logs=None):\n"
        "        self.model.stop_training = True\n"
    )
    stopped = changed(run, max_steps=9, evaluate_every=1, early_stopping=9, callbacks=f"{tmp_path}/own.py:Stop")
    assert run_training(stopped) == 0
    output = capsys.readouterr().out
    assert "evaluated" in output and "did not fall" not in output and "model.ckpt-9" not in output
