"""Thresholds are chosen on the images that choose a checkpoint, and said wherever they are used."""

import dataclasses
import types

import numpy as np
import pytest

from estimator_train.app.metrics import tasks
from estimator_train.app.running import evaluation, label_thresholds

NAMES = ("cat", "dog")
LABELS = np.array([[1, 0], [1, 0], [0, 0]], float)
OUTPUTS = np.array([[0.4, 0.2], [0.3, 0.1], [0.1, 0.3]])


@pytest.fixture
def findings(settings):
    return dataclasses.replace(settings, dataset="manifest", task="multilabel", class_names=NAMES)


@pytest.fixture
def evaluated(monkeypatch):
    """The datasets that were evaluated; each evaluation gives the same examples."""
    evaluated = []

    def evaluate(settings, data, model_dir, checkpoints):
        evaluated.append(data)
        yield evaluation.Evaluated({}, LABELS, OUTPUTS, tasks.named("multilabel").result(NAMES, LABELS, OUTPUTS))

    monkeypatch.setattr(evaluation, "evaluate", evaluate)
    return evaluated


@pytest.mark.parametrize(
    ("validation_examples", "said"),
    [(3, "3 validation images"), (0, "3 evaluation images, on which the numbers are therefore too good")],
)
def test_they_are_chosen_kept_and_said(findings, evaluated, validation_examples, said, tmp_path, capsys):
    data = types.SimpleNamespace(validation_examples=validation_examples, to_choose_on=lambda: "those that choose")
    chosen = label_thresholds.choose(findings, data, str(tmp_path), f"{tmp_path}/model.ckpt-6")
    assert evaluated == ["those that choose"]
    assert chosen == {"cat": pytest.approx(0.2), "dog": 0.5}
    file = tmp_path / "thresholds.json"
    assert capsys.readouterr().err.splitlines() == [
        f"the thresholds of the best F1 are cat 0.2000, dog 0.5000, kept in {file}, chosen on {said}",
        "no image has 'dog': the threshold remains 0.5",
    ]
    # The checkpoint that --keep-best keeps is a copy in another folder.
    assert label_thresholds.kept(findings, str(tmp_path), f"{tmp_path}/export/best_checkpoint/model.ckpt-6") == chosen
    assert capsys.readouterr().err == f"using the thresholds in {file}, chosen on {said}\n"


def test_those_of_another_checkpoint_are_not_used(findings, evaluated, tmp_path, capsys):
    data = types.SimpleNamespace(validation_examples=3, to_choose_on=lambda: None)
    label_thresholds.choose(findings, data, str(tmp_path), "model.ckpt-6")
    capsys.readouterr()
    assert label_thresholds.kept(findings, str(tmp_path), "model.ckpt-8") is None
    assert capsys.readouterr().err == (
        f"{tmp_path}/thresholds.json is for model.ckpt-6, so model.ckpt-8 predicts labels from 0.5 on; evaluate "
        "choose_thresholds chooses thresholds for it\n"
    )


def test_a_run_without_any_says_nothing(settings, findings, tmp_path, capsys):
    assert label_thresholds.kept(findings, str(tmp_path), "model.ckpt-6") is None
    (tmp_path / "thresholds.json").write_text("not of a classifier")
    assert label_thresholds.kept(settings, str(tmp_path), "model.ckpt-6") is None
    assert capsys.readouterr().err == ""


def test_those_of_another_checkpoint_of_the_same_name_are_not_used(findings, evaluated, tmp_path, capsys):
    data = types.SimpleNamespace(validation_examples=3, to_choose_on=lambda: None)
    (tmp_path / "model.ckpt-6.index").write_bytes(b"some checksums")
    label_thresholds.choose(findings, data, str(tmp_path), f"{tmp_path}/model.ckpt-6")
    kept = tmp_path / "export" / "best_checkpoint"
    kept.mkdir(parents=True)
    (kept / "model.ckpt-6.index").write_bytes(b"some checksums")
    (tmp_path / "model.ckpt-6.index").write_bytes(b"other checksums")
    assert label_thresholds.kept(findings, str(tmp_path), f"{kept}/model.ckpt-6") is not None
    capsys.readouterr()
    assert label_thresholds.kept(findings, str(tmp_path), f"{tmp_path}/model.ckpt-6") is None
    assert "thresholds.json is for another model.ckpt-6, of before the run was" in capsys.readouterr().err
