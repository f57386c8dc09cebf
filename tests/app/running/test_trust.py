"""What a run of somebody else may not do: run code, draw images, lead writes out of its folder, control a terminal."""

import json
import os
import shutil
import subprocess
import types
import zipfile

import click
import pytest

from estimator_train.app.cli import output_format
from estimator_train.app.datasets import oct2017
from estimator_train.app.errors import SettingError
from estimator_train.app.running import build
from estimator_train.app.running.messages import on_terminal
from estimator_train.app.running.opened_run import ask
from estimator_train.app.runs import provenance, trust


@pytest.fixture
def own_run(command, own_flags, tmp_path, monkeypatch):
    """A run of FILE:FUNCTIONs, whose file notes that it was run, and of which this machine knows nothing."""
    assert command(*own_flags, "--model-dir", "run", "--max-steps", "1", "--quiet")[0] == 0
    with (tmp_path / "own.py").open("a") as file:
        file.write("\nopen('ran', 'w').close()\n")
    build._load_file.cache_clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another machine"))


COMMANDS = {
    "evaluate": (),
    "predict": ("scan.jpeg",),
    "report": (),
    "export": ("--format", "saved_model", "--out", "out"),
    "--resume": ("--max-steps", "2"),
    "--config": ("run/run.json", "--model-dir", "again"),
}


def arguments(name, more):
    first = [name] if name.startswith("--") else [name, "--model-dir", "run"]
    return [*first, *(("--model-dir", "run") if name == "--resume" else ()), *more]


def test_functions_that_a_run_names_are_run_only_if_asked_for(command, own_run, tmp_path, monkeypatch):
    for name, more in COMMANDS.items():
        code, _, errors = command(*arguments(name, more))
        assert (code, errors.count("\n")) == (2, 1), (name, errors)
        assert "run.json names " in errors and "own.py:train_input_fn" in errors
        assert "which you have not used here before; read the code, then add --trust-run" in errors
    assert not (tmp_path / "ran").exists() and not (tmp_path / "again").exists()
    assert command("evaluate", "--model-dir", "run", "--trust-run")[0] == 0
    assert (tmp_path / "ran").exists()
    assert command("evaluate", "--model-dir", "run")[0] == 0, "the user has said so once"


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
def test_a_question_on_a_terminal_decides(answer, code, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    asked = []
    monkeypatch.setattr(click, "confirm", lambda text, err: asked.append(text) or answer == "y")
    settings = {"input_fn": "/a\x1b[2J.py:f"}
    try:
        ask("run/run.json", settings, False)
        ask("run/run.json", settings, False)
        assert code == 0
    except SettingError:
        assert code == 2
    assert asked == [r"run/run.json names /a\x1b[2J.py:f, which you have not used here before. Run or write to them?"]


@pytest.mark.parametrize(
    "settings",
    [
        {"dataset": "cats_vs_dogs", "data_dir": "/there"},
        {"dataset": "tfds:cifar10", "data_dir": "/there"},
        {"dataset": "hf:cifar10", "data_dir": "/there"},
        {"dataset": "images", "cache": "/there"},
        {"callbacks": "/there"},
        {"model": "/there:build"},
    ],
    ids=str,
)
def test_folders_and_functions_of_every_kind_are_asked_about(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(SettingError, match="run.json names /there"):
        ask("run/run.json", settings, False)
    trust.remember(settings)
    ask("run/run.json", settings, False)


def test_a_file_of_the_same_name_in_another_folder_is_asked_about(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ask("run/run.json", {"model": "model.py:build"}, True)
    ask("run/run.json", {"model": "model.py:build"}, False)
    (tmp_path / "downloaded").mkdir()
    monkeypatch.chdir(tmp_path / "downloaded")
    with pytest.raises(SettingError, match="names .*/downloaded/model.py:build, which you have not used"):
        ask("run/run.json", {"model": "model.py:build"}, False)


@pytest.fixture
def strangers(trained, tmp_path, monkeypatch):
    """Changes settings in the run.json of a run on a machine that knows nothing of it and has no data."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(trained.model_dir, "run")
    path = tmp_path / "run" / "run.json"

    def strangers(**settings):
        run = json.loads(path.read_text())
        run["settings"] |= settings
        path.write_text(json.dumps(run))

    return strangers


OPENING_DATA = ("evaluate", "report", "--resume", "--config")


def test_nothing_is_drawn_where_a_run_says(command, strangers, tmp_path):
    strangers(dataset="synthetic_oct", data_dir=str(tmp_path / "elsewhere"))
    for name in OPENING_DATA:
        code, _, errors = command(*arguments(name, COMMANDS[name]))
        assert (code, errors.count("\n")) == (2, 1) and "there are no images in " in errors, (name, errors)
    assert not (tmp_path / "elsewhere").exists()


def test_a_zip_that_a_run_names_is_unpacked_only_if_asked_for(command, strangers, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    with zipfile.ZipFile(tmp_path / "elsewhere" / "archive.zip", "w") as archive:
        archive.writestr("OCT2017/train/CNV/CNV-1-1.jpeg", b"")
    for data_dir in (tmp_path / "elsewhere", tmp_path / "elsewhere" / "archive.zip"):
        strangers(dataset="oct2017", data_dir=str(data_dir))
        for name in OPENING_DATA:
            code, _, errors = command(*arguments(name, COMMANDS[name]))
            assert (code, errors.count("\n")) == (2, 1), (name, errors)
            assert f"run.json names {data_dir}, which you have not used here before" in errors
    assert os.listdir(tmp_path / "elsewhere") == ["archive.zip"]
    code, _, errors = command("--config", "run/run.json", "--data-dir", "mine", "--model-dir", "again")
    assert code == 2 and "there is no folder mine" in errors, "a folder of one's own is not asked about"


def test_nothing_is_downloaded_with_the_credentials_of_the_user(command, strangers, monkeypatch, tmp_path):
    monkeypatch.setattr(oct2017, "download", lambda: pytest.fail("it was downloaded"))
    strangers(dataset="oct2017", data_dir=None)
    for name in OPENING_DATA:
        code, _, errors = command(*arguments(name, COMMANDS[name]))
        assert (code, errors.count("\n")) == (2, 1), (name, errors)
        assert "run.json names the download of oct2017, which you have not used here before" in errors
    trust.remember({"dataset": "oct2017", "data_dir": None})
    ask("run/run.json", {"dataset": "oct2017", "data_dir": None}, False)


@pytest.mark.parametrize(
    "name", ["evaluations.jsonl", "training.lock", "eval", "report", "export", "export/best", "model.ckpt-2_temp"]
)
def test_links_that_lead_out_of_a_run_are_refused(name, command, trained, tmp_path):
    shutil.copytree(trained.model_dir, "run")
    (tmp_path / "target").mkdir() if "." not in name else (tmp_path / "target").write_text("precious")
    link = tmp_path / "run" / name
    shutil.rmtree(link, ignore_errors=True)
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "target")
    for verb, more in COMMANDS.items():
        if verb != "--config":
            code, _, errors = command(*arguments(verb, more))
            assert (code, errors.count("\n")) == (2, 1), (verb, errors)
            assert f"run/{name} is a link that leads out of the run; remove it" in errors
    assert (tmp_path / "target").is_dir() or (tmp_path / "target").read_text() == "precious"
    assert not (tmp_path / "target").is_dir() or not os.listdir(tmp_path / "target")


def test_git_runs_no_program_that_a_repository_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    script.chmod(0o755)

    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments], check=True)

    git("init", "-q")
    (tmp_path / "a.txt").write_text("a")
    git("add", "a.txt")
    git("commit", "-q", "-m", "first")
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    assert provenance._git_commit() == head
    (tmp_path / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    for name in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "diff.external"):
        git("config", name, str(script))
    (tmp_path / ".git" / "hooks").mkdir(exist_ok=True)
    shutil.copy(script, tmp_path / ".git" / "hooks" / "post-index-change")
    os.utime(tmp_path / "a.txt", (1, 1))  # git must read it to see that it is unchanged
    assert provenance._git_commit() == head
    (tmp_path / "a.txt").write_text("changed")
    assert provenance._git_commit() == f"{head}-dirty"
    assert not (tmp_path / "ran").exists()


def test_a_class_with_escape_sequences_does_not_reach_the_terminal(command, tmp_path, scans):
    rows = [f"{path},{label}" for label in ("bright", "\x1b]0;evil\x07dark") for path in sorted(scans.glob("*/*"))]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *rows, *rows]))
    code, output, errors = command("--dataset", "manifest", "--data-dir", "labels.csv", "--dry-run")
    assert (code, "\x1b" in output + errors) == (2, False)
    assert errors == ("estimator_train: the class \\x1b]0;evil\\x07dark has control characters; rename it\n")


def test_an_error_that_quotes_a_file_does_not_control_the_terminal(command, tmp_path):
    (tmp_path / "labels.csv").write_text("path,label\n\x1b[2Jnowhere.png,a\n")
    code, output, errors = command("--dataset", "manifest", "--data-dir", "labels.csv", "--dry-run")
    assert code == 2 and "\x1b" not in output + errors and r"\x1b[2Jnowhere.png" in errors


def test_the_names_in_a_table_do_not_control_the_terminal(capsys):
    flags = types.SimpleNamespace(json=False, csv=False)
    output_format.write(flags, None, None, lambda: "checkpoint  loss\nmodel\x1b[2J\u202e.ckpt-6  0.5")
    assert capsys.readouterr().out == "checkpoint  loss\nmodel\\x1b[2J\\u202e.ckpt-6  0.5\n"


def test_settings_of_a_run_do_not_control_the_terminal(command, trained, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(trained.model_dir, name)
        path = tmp_path / name / "run.json"
        run = json.loads(path.read_text())
        run["settings"]["weights"] = f"\x1b[1m{name}"
        path.write_text(json.dumps(run))
        (tmp_path / name / "evaluations.jsonl").write_text('{"step": 1, "checkpoint": "c", "metrics": {"loss": 1.0}}\n')
    code, output, _ = command("compare", "a", "b")
    assert code == 0 and r"\x1b[1ma" in output and r"\x1b[1mb" in output
    assert list(on_terminal(["data  \x1b[2J"]).splitlines()) == [r"data  \x1b[2J"]
