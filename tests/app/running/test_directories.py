"""Files and runs are written where they can be."""

from pathlib import Path

import pytest

from estimator_train.app.errors import SettingError
from estimator_train.app.running.directories import check_directory, check_model_dir, check_not_a_class, check_place


def refuse(path):
    raise PermissionError(13, "Permission denied", str(path))


def test_a_directory_that_cannot_be_looked_into_is_one_line(monkeypatch, tmp_path):
    (tmp_path / "run.json").touch()
    monkeypatch.setattr(Path, "is_file", refuse)  # root, who runs these tests in containers, may look anywhere
    with pytest.raises(SettingError, match="model_dir .*Permission denied: .*run.json"):
        check_model_dir(str(tmp_path))


def test_a_directory_below_one_that_is_closed_cannot_be_written_to(monkeypatch, tmp_path):
    for name in ("exists", "is_dir"):
        monkeypatch.setattr(Path, name, refuse)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(SettingError, match=f"out .*: no permission to write in {tmp_path}"):
        check_directory(str(tmp_path / "new"), "--out")


def test_a_run_without_a_step_may_start_again_and_others_need_resume(tmp_path):
    (tmp_path / "run.json").touch()
    (tmp_path / "model.ckpt-0.index").touch()
    check_place(str(tmp_path), is_new=True)
    (tmp_path / "model.ckpt-10.index").touch()
    with pytest.raises(SettingError, match="holds a run, trained to model.ckpt-10; add resume"):
        check_place(str(tmp_path), is_new=True)
    check_place(str(tmp_path), is_new=False)
    for path in tmp_path.glob("*.index"):
        path.unlink()
    (tmp_path / "evaluations.jsonl").touch()
    with pytest.raises(SettingError, match="holds a run, whose checkpoints are gone; add resume"):
        check_place(str(tmp_path), is_new=True)


def test_a_run_among_the_class_folders_of_its_data_is_refused(monkeypatch, tmp_path):
    for name in ("pets/cat", "pets/dog", "split/train/cat", "split/train/dog"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "pets")
    for model_dir, data_dir in (("runs/images", "."), (".", "../pets"), ("../split/train/run", "../split")):
        with pytest.raises(SettingError, match="is among the class folders of .* another class; give a folder"):
            check_not_a_class(model_dir, "--model-dir", "images", data_dir)
    for model_dir, data_dir in (("../runs", "."), (".runs/a", "."), ("../split/runs", "../split"), ("run", None)):
        check_not_a_class(model_dir, "--model-dir", "images", data_dir)
