"""Wrong arguments end with one line on standard error and exit code 2, before TensorFlow is imported."""

import json
import subprocess
import sys

import pytest

# Runs the command in a process of its own and tells at its end whether TensorFlow came along.
PROGRAM = """
import sys
from estimator_train.cli import main
try:
    main()
finally:
    print("tensorflow" in sys.modules)
"""


@pytest.fixture
def run(tmp_path):
    def run(*arguments):
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path
        )
        *output, imported = result.stdout.splitlines()
        assert imported == "False"
        return result.returncode, "\n".join(output), result.stderr

    return run


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([name, "--help"] for name in ("train", "evaluate", "predict", "export"))]
)
def test_help_answers_without_tensorflow(run, arguments):
    code, output, errors = run(*arguments)
    assert (code, errors) == (0, "")
    assert "estimator_train" in output


@pytest.fixture
def files(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    (tmp_path / "classes" / "a").mkdir(parents=True)
    (tmp_path / "classes" / "b").mkdir()
    (tmp_path / "data.py").write_text("def train_input_fn(): ...\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "run").mkdir()
    settings = {
        "dataset": "synthetic_oct", "data_dir": None, "input_fn": None, "eval_input_fn": None, "model": "vgg16",
        "weights": None, "image_size": [64, 64], "class_names": ["CNV", "DME", "DRUSEN", "NORMAL"], "batch_size": 8,
        "seed": None,
    }  # fmt: skip
    (tmp_path / "run" / "run.json").write_text(json.dumps(settings))
    own = settings | {"dataset": None, "input_fn": "data.py:train_input_fn", "eval_input_fn": "data.py:train_input_fn"}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "run.json").write_text(json.dumps(own))
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text("{")


OWN = ["--eval-input-fn", "data.py:train_input_fn", "--model", "data.py:train_input_fn"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--dataset", "octs"], "there is no dataset 'octs'; pass one of synthetic_oct, oct2017, images"),
        (["--dataset", "images"], "--data-dir"),
        (["--dataset", "images", "--data-dir", "nowhere"], "there is no folder nowhere"),
        (["--dataset", "images", "--data-dir", "file"], "file is a file"),
        (["--dataset", "images", "--data-dir", "empty"], "empty has no class folders"),
        (["--dataset", "images", "--data-dir", "classes"], "JPEG or PNG"),
        (["--dataset", "oct2017"], "needs --data-dir"),
        (["--dataset", "oct2017", "--data-dir", "empty"], "CNV"),
        (["--model", "resnet"], "there is no model 'resnet'; pass one of vgg16, mobilenet_v2, small_cnn"),
        (["--weights", "nowhere.h5"], "there is no weights file nowhere.h5"),
        (["--weights", "file"], "file is not HDF5"),
        (["--gpus", "2", "--replicas", "2"], "--gpus and --replicas exclude each other"),
        (["--epochs", "1", "--max-steps", "2"], "--epochs and --max-steps exclude each other"),
        (["--replicas", "0"], "--replicas"),
        (["--image-size", "big"], "'big' is not a size in pixels such as 96 or 224x224"),
        (["--model-dir", "file"], "--model-dir file is a file"),
        (["--model-dir", "run"], "the run in run has model vgg16, not small_cnn; use another --model-dir"),
        (["--model-dir", "torn"], "run.json cannot be read"),
        (["--early-stopping", "3"], "--early-stopping goes by evaluations on the way; give --evaluate-every STEPS"),
        (["--keep-best"], "--keep-best goes by evaluations on the way; give --evaluate-every STEPS"),
        (["--evaluate-every", "0"], "--evaluate-every"),
        (["--speed", "9"], "No such option '--speed'"),
        (["evalute"], "No such command 'evalute'"),
        (["--input-fn", "data.py:train_input_fn"], "--input-fn and --eval-input-fn go together"),
        (["--input-fn", "data.py:train_input_fn", *OWN, "--epochs", "2"], "leave out --epochs"),
        (["--input-fn", "data.py:train_input_fn", *OWN[:2]], "--input-fn needs --model"),
        (["--input-fn", "data.py:train_input_fn", *OWN, "--dataset", "images"], "takes the place of --dataset"),
        (["--input-fn", "data.py:other", *OWN], "data.py has no other; it has train_input_fn"),
        (["--input-fn", "nowhere.py:f", *OWN], "cannot read nowhere.py"),
        (["--input-fn", "broken.py:f", *OWN], "broken.py line 1"),
        (["--input-fn", "data", *OWN], "give FILE:FUNCTION"),
        (["evaluate"], "--model-dir"),
        (["evaluate", "--model-dir", "nowhere"], "there is no such folder"),
        (["evaluate", "--model-dir", "empty"], "holds no run"),
        (["evaluate", "--model-dir", "run", "--checkpoint", "run/model.ckpt-9"], "there is no such checkpoint"),
        (["evaluate", "--model-dir", "run", "--checkpoint", "x", "--all"], "--checkpoint and --all exclude each other"),
        (["predict", "--model-dir", "run"], "Missing argument"),
        (["predict", "file"], "--model-dir"),
        (["predict", "--model-dir", "empty", "file"], "holds no run"),
        (["predict", "--model-dir", "own", "file"], "own was trained by an input_fn, not on a data set of images"),
        (["predict", "--model-dir", "run", "--json", "--csv", "file"], "--json and --csv exclude each other"),
        (["predict", "--model-dir", "run", "--checkpoint", "run/x", "file"], "there is no such checkpoint"),
        (["predict", "--model-dir", "run", "empty", "*.jpeg", "x.png"], "there is no image file empty, *.jpeg, x.png"),
        (["export", "--model-dir", "run", "--format", "onnx", "--out", "new"], "saved_model"),
        (["export", "--model-dir", "run", "--format", "keras"], "--out"),
        (["export", "--model-dir", "nowhere", "--format", "keras", "--out", "new"], "there is no such folder"),
        (["export", "--model-dir", "run", "--format", "keras", "--out", "file"], "--out file is a file; give a folder"),
        (["export", "--model-dir", "run", "--format", "saved_model", "--out", "classes"], "classes is there already"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(run, files, monkeypatch, tmp_path, arguments, message):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, output, errors = run(*arguments)
    assert code == 2
    assert output == ""
    assert errors.count("\n") == 1 and errors.startswith("estimator_train: ")
    assert message in errors
