"""Invalid arguments end with one line on standard error and exit code 2, before TensorFlow is imported."""

import importlib.util
import json
import os
import pty
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pretended_checkpoints import pretend

from estimator_train.app.running import planning

# Runs the command with each list of arguments and environment; reports which large modules were imported.
PROGRAM = """
import contextlib, io, json, os, sys
from estimator_train.app.cli import main

def answer(arguments, environment):
    sys.argv = ["estimator_train", *arguments]
    os.environ.update(environment)
    code, output, errors = 0, io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    for stream in (output, errors):
        stream.flush()
    return code, *(stream.buffer.getvalue().decode() for stream in (output, errors)), [
        name for name in ("numpy", "tensorflow") if name in sys.modules
    ]

print(json.dumps([answer(*each) for each in json.load(sys.stdin)]))
"""


def run_all(folder, arguments, without=("tensorflow",), environments=None):
    """Exit codes, standard outputs and standard errors, if none of the modules `without` has come along."""
    lists = [[str(argument) for argument in each] for each in arguments]
    calls = json.dumps(list(zip(lists, environments or [{}] * len(lists), strict=True)))
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=calls, stdout=subprocess.PIPE, text=True, cwd=folder
    )
    answers = json.loads(process.stdout)
    assert not any(set(without) & set(imported) for *_, imported in answers)
    return [answer[:3] for answer in answers]


def test_help_answers_without_numpy_and_tensorflow(tmp_path):
    named = [[name, "--help"] for name in ("train", "evaluate", "predict", "export", "run", "scan", "verify", "launch")]
    arguments = [["--help"], ["-h"], ["--version"], ["evaluate", "-h"], *named]
    for code, output, errors in run_all(tmp_path, arguments, without=("numpy", "tensorflow")):
        assert (code, errors) == (0, "")
        assert "estimator_train" in output


OFFERED = {
    "": "bench compare datasets evaluate export launch memory predict report run scan train verify",
    "ev": "evaluate",
    "--dry": "--dry-run",
    "train --max": "--max-steps",
    "--dataset s": "synthetic_oct",
    "train --seed 1 --model sm": "small_cnn",
    "--data-dir sc": "sc",
    "export --format k": "keras",
}


def test_the_shell_completes_commands_flags_and_names_without_numpy(tmp_path):
    environments = [
        {
            "_ESTIMATOR_TRAIN_COMPLETE": "bash_complete",
            "COMP_WORDS": f"estimator_train {words}",
            "COMP_CWORD": str(len(f"{words} ".split(" ")) - 1),
        }
        for words in OFFERED
    ]
    answers = run_all(tmp_path, [[]] * len(OFFERED), ("numpy", "tensorflow"), environments)
    offered = [" ".join(line.partition(",")[2] for line in output.splitlines()) for _, output, _ in answers]
    assert dict(zip(OFFERED, offered, strict=True)) == OFFERED


@pytest.mark.parametrize(("no_color", "start"), [("", "\x1b[31mestimator_train:\x1b[0m "), ("1", "estimator_train: ")])
def test_errors_are_red_on_a_terminal_but_for_no_color(no_color, start):
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "estimator_train", "--bad"]
    subprocess.run(command, stderr=its, env=os.environ | {"NO_COLOR": no_color})
    os.close(its)
    with os.fdopen(ours, "rb") as terminal:
        assert terminal.readline().decode().startswith(f"{start}No such option '--bad'")


@pytest.fixture
def files(tmp_path, scans):
    write_files(tmp_path, scans)


def write_files(folder, scans):
    (folder / "file").write_text("text")
    (folder / "bad.csv").write_text("path,label\nscans,\nnowhere.png,a\n")
    (folder / "empty").mkdir()
    (folder / "classes" / "a").mkdir(parents=True)
    (folder / "classes" / "b").mkdir()
    (folder / "taken" / "model.keras").mkdir(parents=True)
    (folder / "data.py").write_text("def train_input_fn(): ...\n")
    (folder / "broken.py").write_text("def (:\n")
    (folder / "run").mkdir()
    (folder / "scans").symlink_to(scans)
    settings = {
        "dataset": "images", "data_dir": str(scans), "input_fn": None, "eval_input_fn": None, "model": "vgg16",
        "weights": None, "image_size": [64, 64], "class_names": ["bright", "dark"], "batch_size": 8, "seed": 5,
    }  # fmt: skip
    (folder / "run" / "run.json").write_text(json.dumps({"settings": settings}))
    own = settings | {"dataset": None, "input_fn": "data.py:train_input_fn", "eval_input_fn": "data.py:train_input_fn"}
    (folder / "own").mkdir()
    (folder / "own" / "run.json").write_text(json.dumps({"settings": own}))
    (folder / "away").mkdir()
    (folder / "away" / "run.json").write_text(json.dumps({"settings": settings | {"data_dir": "/nowhere"}}))
    (folder / "other").mkdir()
    (folder / "other" / "run.json").write_text(json.dumps({"settings": settings | {"class_names": ["A", "B"]}}))
    pretend(folder / "begun", 7)
    (folder / "lost").mkdir()
    (folder / "lost" / "evaluations.jsonl").touch()
    (folder / "recipe").mkdir()
    (folder / "recipe" / "run.json").write_text(json.dumps({"settings": {"recipe": "unet3d"}}))
    (folder / "list.json").write_text("[]")
    (folder / "null").mkdir()
    (folder / "null" / "run.json").write_text(json.dumps({"settings": settings | {"class_names": None}}))
    (folder / "odd" / "timing.json").mkdir(parents=True)
    (folder / "odd" / "run.json").write_text(json.dumps({"settings": settings}))
    (folder / "link").symlink_to(folder / "nowhere")
    (folder / "torn").mkdir()
    (folder / "torn" / "run.json").write_text("{")


PHASES = "freeze=all epochs=1; freeze=none epochs=2"
OWN = ["--eval-input-fn", "data.py:train_input_fn", "--model", "data.py:train_input_fn"]
SCANS = ["--dataset", "images", "--data-dir", "scans"]
KEEP_BEST = ["--evaluate-every", "5", "--keep-best"]


# Packages that are not installed for the tests; with them, these commands would work.
NOT_INSTALLED = [
    (arguments, f"{name} is not installed: pip install {package}")
    for name, package, arguments in [
        ("mlflow", "mlflow-skinny", ["--log", "csv,mlflow"]),
        ("wandb", "wandb", ["--log", "wandb"]),
        ("tf2onnx", "tf2onnx onnxruntime", ["export", "--model-dir", "run", "--format", "onnx", "--out", "new"]),
    ]
    if importlib.util.find_spec(name) is None
]
WRONG = [
    *NOT_INSTALLED,
    (["--dataset", "octs"], "there is no dataset 'octs'; pass one of synthetic_oct, oct2017, images"),
    (["--dataset", "images"], "--data-dir"),
    (["--dataset", "images", "--data-dir", "nowhere"], "there is no folder nowhere"),
    (["--dataset", "images", "--data-dir", "file"], "file is a file"),
    (["--dataset", "images", "--data-dir", "empty"], "empty has no class folders"),
    (["--dataset", "images", "--data-dir", "classes"], "image files"),
    (["--data-dir", "nowhere"], "--data-dir: there is no folder nowhere; give a folder of class folders, or say with "),
    (["--data-dir", "nowhere", "--model-dir", "new"], "--data-dir: there is no folder nowhere; give"),
    (["--data-dir", "file"], "--data-dir: file is a file, not a folder of class folders; give a folder"),
    (["--data-dir", "bad.csv"], "bad.csv has bad rows: line 2 has no label; line 3 has the path"),
    (["--dataset", "images", "--data-dir", "bad.csv"], "bad.csv is a file, which --dataset manifest takes, not a "),
    (
        ["--dataset", "manifest", "--data-dir", "bad.csv", "--split", "patient"],
        "in the column split (train, test or val)",
    ),
    (["--data-dir", "empty"], "--data-dir: empty has no class folders; give a folder of class folders, or say"),
    (["--dataset", "synthetic_oct", "--data-dir", "empty"], "there are no images in empty; give their folder, or draw"),
    (["--dataset", "images", "--data-dir", "scans", "--task", "regression"], "images takes no option task"),
    (
        ["--dataset", "manifest", "--data-dir", "file"],
        "file needs one column path and one column label; its first line has",
    ),
    (
        ["--dataset", "manifest", "--data-dir", "bad.csv"],
        "bad.csv has bad rows: line 2 has no label; line 3 has the path",
    ),
    (["--dataset", "manifest", "--data-dir", "bad.csv", "--task", "ranking"], "'ranking' is not one of"),
    (["--input-fn", "data.py:train_input_fn", "--task", "regression", *OWN], "leave out --task"),
    (["--cache", "gs://bucket/cache"], "--cache gs://bucket/cache: give a folder on this machine, or memory"),
    ([*SCANS, "--cache", "file/cache"], "/file is a file; give a folder"),
    (["launch", "--logs", "file/logs", "--", "--dry-run"], "--logs file/logs: file is a file; give a folder"),
    (
        ["export", "--model-dir", "run", "--format", "keras", "--out", "gs://b/x"],
        "--out gs://b/x: give a folder on this",
    ),
    (["--dataset", "oct2017", "--data-dir", "empty"], "CNV"),
    (["--model", "resnet"], "there is no model 'resnet'; did you mean resnet50"),
    (
        [*SCANS, "--model", "xception", "--image-size", "64", "--dry-run"],
        "xception takes images of at least 71 x 71",
    ),
    ([*SCANS, "--model", "small_cnn", "--weights", "imagenet", "--dry-run"], "small_cnn has no ImageNet weights"),
    (["--model", "small_cnn", "--freeze", "all"], "small_cnn has no backbone of keras.applications to freeze"),
    (["--model", "vgg16", "--weights", "none", "--freeze", "all"], "freeze=all would keep the random weights that"),
    (["--phases", "freeze=all"], "'--phases': the phase 'freeze=all' has no epochs=; write 'freeze=all epochs=2"),
    (
        ["--phases", PHASES, "--epochs", "2"],
        "each of the --phases has its own freeze=, epochs= and lr=; leave out --ep",
    ),
    (["--phases", PHASES, "--learning-rate", "1"], "epochs= and lr=; leave out --learning-rate"),
    (["--phases", PHASES, "--freeze", "all"], "epochs= and lr=; leave out --freeze"),
    (
        ["--freeze", "none", "--cache", "features"],
        "--cache features keeps the outputs of frozen layers; leave it out, or",
    ),
    (["--phases", PHASES, "--model", "small_cnn"], "small_cnn has no backbone of keras.applications to freeze"),
    (["--phases", PHASES, "--model", "vgg16", "--weights", "none"], "freeze=all would keep the random weights that"),
    (["--freeze", "all", "--model", "data.py:train_input_fn"], "data.py:train_input_fn has no backbone of keras"),
    (["--weights", "nowhere.h5"], "/nowhere.h5; pass an HDF5 file"),
    (["--weights", "file"], "file is not HDF5"),
    (["--gpus", "2", "--replicas", "2"], "--gpus and --replicas exclude each other"),
    (["--all-reduce", "one_device"], "--all-reduce sums over replicas; give --gpus N or --replicas N, too"),
    (["--recipe", "unet3d"], "--recipe has left the command: copy examples/unet3d.py from the repository, and run"),
    ([*SCANS, "--recipe=cyclegan", "--filters", "8"], "left the command: copy examples/cyclegan.py from the"),
    (["--recipe", "unet4d"], "copy examples/segmentation.py or examples/cats_vs_dogs.py or examples/cyclegan.py or"),
    (["--split-over", "2"], "--split-over has left the command: copy examples/unet3d.py from the repository"),
    (["recipes"], "recipes has left the command: copy examples/segmentation.py or examples/cats_vs_dogs.py or"),
    (["evaluate", "--model-dir", "recipe"], "run.json is of a recipe, which have left the command: copy examples/unet"),
    (["--epochs", "1", "--max-steps", "2"], "--epochs and --max-steps exclude each other"),
    (["--replicas", "0"], "--replicas"),
    (["--image-size", "big"], "'big' is not a size in pixels such as 96 or 224x224"),
    (["--image-size", "²"], "'²' is not a size in pixels such as 96 or 224x224"),
    (["--seed", "5000000000"], "5000000000 is not in the range 0<=x<=4294967295"),
    (["--batch-size", "100000000000000000000"], "'--batch-size': 100000000000000000000 is too large; 2147483647 is"),
    (["--limit", "100000000000000000000"], "'--limit': 100000000000000000000 is too large"),
    (["--max-steps", "9223372036854775808"], "9223372036854775808 is too large; 9223372036854775807 is the most"),
    (["--data-dir", ""], "'--data-dir': it is empty; give a value, or leave it out"),
    (["--data-dir="], "'--data-dir': it is empty"),
    (["--model-dir", ""], "'--model-dir': it is empty"),
    (["evaluate", "--model-dir", ""], "'--model-dir': it is empty"),
    (["evaluate", "--model-dir", "run", "--predictions", ""], "'--predictions': it is empty"),
    (["export", "--model-dir", "run", "--format", "keras", "--out", ""], "'--out': it is empty"),
    (["--model-dir", "file"], "--model-dir file is a file"),
    (
        ["--model-dir", "lost"],
        "lost holds a run, whose checkpoints are gone; add --resume, or give another --model-dir",
    ),
    (["--model-dir", "begun"], "begun holds a run, trained to model.ckpt-7; add --resume, or give another"),
    (["--model-dir", "run", "--resume", "--model", "small_cnn"], "the run in run has model vgg16, not small_cnn;"),
    (["--model-dir", "run", "--resume", "--batch-size", "4"], "the run in run has batch_size 8, not 4; continue with"),
    (["--model-dir", "run", "--resume", "--seed", "3"], "the run in run has seed 5, not 3"),
    (["--model-dir", "other", "--resume"], "other has class_names 'A', 'B', not 'bright', 'dark'"),
    (["--model-dir", "torn", "--resume"], "run.json cannot be read"),
    (["--model-dir", "null", "--resume"], "null/run.json cannot be read: class_names is null"),
    (
        ["--model-dir", "begun", "--resume"],
        "begun holds a run whose run.json is missing; give --dataset or --input-fn",
    ),
    (["--model-dir", "odd", "--resume"], "odd/timing.json is not a file, but a run keeps a file of that name; move it"),
    (["--model-dir", "link"], "--model-dir link is a link to nowhere; give a folder"),
    (["--model-dir", "file/x/y"], "--model-dir file/x/y: file is a file; give a folder"),
    (["--model-dir", "link/x"], "--model-dir link/x: link is a link to nowhere; give a folder"),
    (["--model-dir", "rum", "--resume"], "--resume: rum holds no run; give the folder of one as --model-dir, or --dat"),
    (["--resume"], "--resume: runs/synthetic_oct holds no run; give the folder of one as --model-dir, or --dataset or"),
    (["--model-dir", "a[1]"], "a[1] has [, which TensorFlow takes for a pattern; rename it"),
    (["--config", "nowhere.json"], "nowhere.json cannot be read"),
    (["--config", "file"], "file cannot be read"),
    (["--config", "list.json"], "list.json cannot be read: it holds no run's settings"),
    (["--config", "run/run.json", "--max-steps", "2", "--epochs", "3"], "--epochs and --max-steps exclude"),
    (["--log", "csv,neptune"], "there is no logger 'neptune'; give any of csv, mlflow, wandb, tensorboard"),
    (["--callbacks", "data.py:other"], "--callbacks data.py:other: data.py has no other; it has train_input_fn"),
    (["--quiet", "--verbose"], "--quiet and --verbose exclude each other"),
    (["--early-stopping", "3"], "--early-stopping needs evaluations during training; give --evaluate-every STEPS"),
    (["--keep-best"], "--keep-best needs evaluations during training; give --evaluate-every STEPS"),
    (
        ["--evaluate-every", "5", "--monitor", "accuracy"],
        "--monitor is the metric for --early-stopping and --keep-best",
    ),
    (
        [*SCANS, *KEEP_BEST, "--monitor", "f1"],
        "--monitor f1: there is no such metric; give one of loss, accuracy, macro_",
    ),
    (["scans"], "scans is no command; to train on that folder, give --data-dir scans"),
    (["evaluate", "run"], "the folder of a run is given by --model-dir: evaluate --model-dir run"),
    (["evaluate"], "the folder of a run is given by --model-dir: evaluate --model-dir RUN"),
    (
        ["evaluate", "--model-dir", "away"],
        "there is no folder /nowhere; if the run's data has moved, say where with --da",
    ),
    (
        ["--model-dir", "away", "--resume"],
        "there is no folder /nowhere; if the run's data has moved, say where with --da",
    ),
    (["--model-dir", "/proc/x"], "--model-dir /proc/x: no permission to write in /proc"),
    (["--keep-best", "--monitor", "score"], "is a lower or a higher score better? Give score:min or score:max."),
    (
        ["--input-fn", "data.py:train_input_fn", *OWN, *KEEP_BEST, "--monitor", "macro_f1"],
        "--monitor macro_f1 is computed from classes, and this run has none",
    ),
    (["--evaluate-every", "0"], "--evaluate-every"),
    (["--steps", "9", "--epochs", "1"], "No such option '--steps'"),
    (["--speed", "9"], "No such option '--speed'"),
    (["--bs", "9"], "No such option '--bs'. Did you mean '--batch-size'?"),
    (["-b", "9"], "No such option '-b'. Did you mean '--batch-size'?"),
    (["--imgsz=9"], "No such option '--imgsz'. Did you mean '--image-size'?"),
    (["--batch_size", "9"], "No such option '--batch_size'. Did you mean '--batch-size'?"),
    (["evaluate", "--ckpt", "x"], "No such option '--ckpt'. Did you mean '--checkpoint'?"),
    (["evalute"], "No such command 'evalute'"),
    (["--input-fn", "data.py:train_input_fn"], "--input-fn and --eval-input-fn go together"),
    (["--input-fn", "data.py:train_input_fn", *OWN, "--epochs", "2"], "leave out --epochs"),
    (["--input-fn", "data.py:train_input_fn", *OWN, "--batch-size", "2"], "leave out --batch-size"),
    (["--limit", "1"], "--limit"),
    (["--dataset", "images", "--data-dir", "scans", "--split", "patient"], "images takes no option split"),
    (["--input-fn", "data.py:train_input_fn", *OWN[:2]], "--input-fn needs --model"),
    (["--input-fn", "data.py:train_input_fn", *OWN, "--model", "vgg16"], "--model vgg16 is for the classes of a data"),
    (["--input-fn", "data.py:train_input_fn", *OWN, "--dataset", "images"], "--input-fn replaces --dataset"),
    (["--input-fn", "data.py:other", *OWN], "data.py has no other; it has train_input_fn"),
    (["--input-fn", "nowhere.py:f", *OWN], "cannot read nowhere.py"),
    (["--input-fn", "broken.py:f", *OWN], "broken.py line 1"),
    (["--input-fn", "data", *OWN], "give FILE:FUNCTION"),
    (["--augment", "flip,flop"], "'--augment': there is no 'flop'; give some of flip, rotate, zoom, shift,"),
    (
        ["--augment", "light", "--cache", "features"],
        "--cache features computes features once, but --augment changes them every epoch",
    ),
    (["--learning-rate", "0"], "'--learning-rate': 0.0 is not in the range x>0"),
    (["--learning-rate", "nan"], "'--learning-rate': nan is not a finite number"),
    (["--ema", "1"], "'--ema': 1.0 is not in the range 0<=x<1"),
    (["--optimizer", "adm"], "'--optimizer': 'adm' is not one of"),
    (["--momentum", "0.9"], "--momentum is of two optimizers; give --optimizer sgd or --optimizer rmsprop, too"),
    (["--optimizer", "adam", "--momentum", "0.9"], "--momentum is of two optimizers; give --optimizer sgd or"),
    (["--schedule", "linear"], "'--schedule': 'linear' is not one of"),
    (["--schedule", "cosine", "--warmup-steps", "9", "--max-steps", "9"], "warmup_steps 9 leaves none of the 9 steps"),
    (
        ["--input-fn", "data.py:train_input_fn", *OWN, "--schedule", "step"],
        "the schedule 'step' needs to know at which",
    ),
    (
        ["--input-fn", "data.py:train_input_fn", *OWN, "--class-weights", "balanced"],
        "--class-weights needs a dataset's classes",
    ),
    (["--task", "regression", "--class-weights", "balanced"], "--class-weights is for classification"),
    ([*SCANS, "--class-weights", "nowhere.csv"], "nowhere.csv"),
    ([*SCANS, "--class-weights", "file"], "class weights"),
    (
        ["--find-learning-rate", "--learning-rate", "1"],
        "--find-learning-rate chooses the rates itself; leave out --learn",
    ),
    (["--find-learning-rate", "--resume"], "--find-learning-rate does not keep what it trains; leave out --resume"),
    (["--model-dir", "run", "--resume", "--optimizer", "sgd"], "run has optimizer its default, not sgd; continue with"),
    (["evaluate"], "--model-dir"),
    (["evaluate", "--model-dir", "nowhere"], "there is no such folder"),
    (["evaluate", "--model-dir", "empty"], "holds no run"),
    (["evaluate", "--model-dir", "run", "--checkpoint", "run/model.ckpt-9"], "no such checkpoint; run has none"),
    (["evaluate", "--model-dir", "run", "--checkpoint", "9"], "--checkpoint run/model.ckpt-9: there is no such"),
    (["evaluate", "--model-dir", "run", "--checkpoint", "x", "--all"], "--checkpoint and --all exclude each other"),
    (["evaluate", "--model-dir", "run", "--checkpoint", "best", "--all"], "--checkpoint and --all exclude each other"),
    (["report", "--model-dir", "odd"], "odd/timing.json is not a file"),
    *(
        ([*command, "--checkpoint", "best"], "--checkpoint best: run has none; training keeps it with --evaluate-every")
        for command in (
            ["evaluate", "--model-dir", "run"],
            ["report", "--model-dir", "run"],
            ["predict", "--model-dir", "run", "file"],
            ["export", "--model-dir", "run", "--format", "keras", "--out", "new"],
        )
    ),
    (
        ["evaluate", "--model-dir", "run", "--choose-thresholds"],
        "--choose-thresholds needs a run with --task multilabel, and the task of run is classification",
    ),
    (
        ["evaluate", "--model-dir", "run", "--choose-thresholds", "--all"],
        "--choose-thresholds is for a single checkpoint; leave out --all",
    ),
    (
        ["evaluate", "--model-dir", "run", "--choose-thresholds", "--data-dir", "scans"],
        "--choose-thresholds takes the run's own validation images; leave out --data-dir",
    ),
    (["compare"], "Missing argument"),
    (["compare", "run"], "compare takes two runs or more; give another folder besides run"),
    (["compare", "run", "./run"], "compare takes two runs or more"),
    (["compare", "run", "nowhere"], "estimator_train: nowhere: there is no such folder; give the folder of a run"),
    (
        ["compare", "run", "other"],
        "other knows the classes 'A', 'B' and run the classes 'bright', 'dark'; compare",
    ),
    (["compare", "run", "other", "--out", "nowhere/page.html"], "--out nowhere/page.html: there is no folder nowhere"),
    (["scan", "nowhere"], "nowhere: there is no such file or folder"),
    (["scan", "empty"], "empty: there are no Python files or notebooks"),
    (["verify", "data.py"], "Missing option '--python215'"),
    (["verify", "absent.py", "--python215", sys.executable], "absent.py: there is no such script"),
    (["verify", "data.py", "--python215", "absent/python"], "--python215 absent/python: there is no such program"),
    (["verify", "data.py", "--python215", sys.executable, "--out", "run"], "--out run already exists; give a new"),
    (["verify", "data.py", "--python215", sys.executable, "--time-limit", "0"], "'--time-limit': 0.0 is not in the"),
    (["memory"], "give --dataset NAME, or --model NAME and --image-size"),
    (["memory", "--model", "vgg16"], "--model needs --image-size, or a --dataset to take it from"),
    (["memory", "--recipe", "unet3d"], "--recipe has left the command: copy examples/unet3d.py from the repository"),
    (["memory", "--image-size", "8"], "--image-size is for --dataset and --model; give one, too"),
    (["memory", "--model", "vgg16", "--data-dir", "scans"], "--data-dir is for --dataset; give it, too"),
    (["run", "absent.py"], "absent.py: there is no such script"),
    (["run", "-m", "absent.module"], "No module named absent.module"),
    (["run"], "Missing argument 'SCRIPT'."),
    (["run", "--steps", "3", "data.py"], "No such option"),
    (["predict", "--model-dir", "run"], "Missing argument"),
    (["predict", "file"], "--model-dir"),
    (["predict", "--model-dir", "empty", "file"], "holds no run"),
    (["predict", "--model-dir", "own", "--trust-run", "file"], "own was trained with an input_fn, not on a dataset"),
    (["predict", "--model-dir", "run", "--json", "--csv", "file"], "--json and --csv exclude each other"),
    (["predict", "--model-dir", "run", "--checkpoint", "run/x", "file"], "there is no such checkpoint"),
    (["predict", "--model-dir", "run", "--top", "0", "file"], "'--top': 0 is not in the range x>=1"),
    (
        ["predict", "--model-dir", "run", "--out", "a.csv", "--json", "file"],
        "the ending of the file --out chooses its format; leave out --json",
    ),
    (["predict", "--model-dir", "run", "--out", "a.xlsx", "file"], "a name that ends in .csv, .json, .parquet"),
    (["predict", "--model-dir", "run", "--out", "empty", "file"], "'empty' is a directory"),
    (["predict", "--model-dir", "run", "--out", "file/a.csv", "file"], "--out file/a.csv: there is no folder file"),
    (
        ["predict", "--model-dir", "run", "empty", "*.jpeg", "x.png"],
        "no image file 'empty', '*.jpeg', 'x.png'",
    ),
    (["export", "--model-dir", "run", "--format", "h5", "--out", "new"], "saved_model"),
    (["export", "--model-dir", "run", "--format", "keras"], "--out"),
    (["export", "--model-dir", "nowhere", "--format", "keras", "--out", "new"], "there is no such folder"),
    (["export", "--model-dir", "run", "--format", "keras", "--out", "file"], "--out file is a file; give a folder"),
    (["export", "--model-dir", "run", "--format", "keras", "--out", "taken"], "taken/model.keras already exists"),
]


@pytest.fixture(scope="module")
def answers(scans, tmp_path_factory):
    """Answers to the invalid arguments, by their text."""
    folder = tmp_path_factory.mktemp("wrong")
    write_files(folder, scans)
    lists = [arguments for arguments, _ in WRONG]
    return {str(arguments): answer for arguments, answer in zip(lists, run_all(folder, lists), strict=True)}


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_a_wrong_argument_is_one_line_and_exit_code_2(answers, arguments, message):
    code, output, errors = answers[str(arguments)]
    assert code == 2
    assert output == ""
    assert errors.count("\n") == 1 and errors.startswith("estimator_train: ")
    assert message in errors


@pytest.fixture
def plan(command, tmp_path, monkeypatch):
    """Runs with --dry-run; returns the plan as {fact: text}."""
    monkeypatch.setattr(planning, "is_gpu_there", lambda: True)

    def plan(*flags):
        before = sorted(tmp_path.rglob("*"))
        code, output, errors = command(*flags, "--dry-run")
        assert (code, errors) == (0, "")
        assert sorted(tmp_path.rglob("*")) == before
        return {line[:12].rstrip(): line[13:] for line in output.splitlines()}

    return plan


def test_a_dry_run_for_gpus_that_are_not_there_says_so(command, monkeypatch):
    monkeypatch.setattr(planning, "is_gpu_there", lambda: False)
    code, _, errors = command("--gpus", "2", "--dry-run")
    line = "estimator_train: --gpus 2: this machine has no NVIDIA GPU; --replicas 2 trains on the CPU instead\n"
    assert (code, errors) == (2, line)


@pytest.mark.smoke
def test_a_dry_run_says_the_plan_and_does_nothing(plan, scans):
    flags = ["--image-size", "32x48", "--batch-size", "2", "--epochs", "4", "--gpus", "2"]
    flags += ["--evaluate-every", "9", "--early-stopping", "2", "--save-checkpoints-steps", "6"]
    assert plan("--dataset", "images", "--data-dir", scans, *flags) == {
        "data": "images: 10 images to train on and 4 to evaluate on, in 2 classes",
        "classes": "bright 5 + 1 + 2, dark 5 + 1 + 2",
        "validation": "2 images, a share of 0.1 of the training images, for the evaluations during training",
        "files": str(scans),
        "model": "mobilenet_v2 for images of 32x48, starting from imagenet, freeze=all",
        "steps": "12: 4 epochs of 3 steps",
        "batch": "2 images on each of 2 replicas: 4 a step",
        "devices": "the first 2 GPUs",
        "optimizer": "adam",
        "rate": "0.003, not scaled by the 2 replicas, constant",
        "cache": "outputs of the frozen layers in memory, at most 0.2 MB; --cache none keeps none",
        "checkpoints": "every 6 steps, every 9 steps and at the end",
        "evaluation": (
            "every 9 steps and at the end on the validation images; 2 without a lower loss end it; the checkpoint of "
            "the best loss is kept; then once on the 4 images to evaluate on"
        ),
        "folder": "runs/images",
    }


def test_the_config_file_of_the_docs_trains_as_flags_do(plan, scans, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "command.md").read_text()
    config = page.partition("### A config file of your own")[2].partition("```json\n")[2].partition("```")[0]
    (tmp_path / "photos.json").write_text(config.replace("photographs", str(scans)))
    flags = ["--dataset", "images", "--data-dir", scans, "--model", "mobilenet_v2", "--epochs", "20"]
    flags += ["--evaluate-every", "50", "--keep-best"]
    (tmp_path / "both").mkdir()
    assert plan("--config", "photos.json", "--model-dir", "both") == plan(*flags, "--model-dir", "both")


def others_like(folder, place):
    """Copies a folder of images, each of which becomes another file than the copies in folders of other names."""
    shutil.copytree(folder, place)
    for path in filter(Path.is_file, place.rglob("*")):
        path.write_bytes(path.read_bytes() + place.name.encode())


def test_directories_of_training_services_are_defaults_that_flags_override(plan, scans, monkeypatch, tmp_path):
    monkeypatch.setenv("AIP_MODEL_DIR", str(tmp_path / "vertex"))
    monkeypatch.setenv("SM_MODEL_DIR", str(tmp_path / "sagemaker"))
    monkeypatch.setenv("SM_CHANNEL_TRAINING", str(scans))
    planned = plan("--dataset", "images")
    assert planned["folder"] == f"{tmp_path}/vertex, from AIP_MODEL_DIR"
    assert planned["files"] == f"{scans}, from SM_CHANNEL_TRAINING"
    given = plan("--dataset", "images", "--data-dir", scans, "--model-dir", "own")
    assert (given["folder"], given["files"]) == ("own", str(scans))
    for split in ("train", "test"):
        others_like(scans, tmp_path / "channels" / split)
        monkeypatch.setenv(f"SM_CHANNEL_{split.upper()}", str(tmp_path / "channels" / split))
    monkeypatch.delenv("SM_CHANNEL_TRAINING")
    monkeypatch.delenv("AIP_MODEL_DIR")
    planned = plan("--dataset", "images")
    assert planned["folder"] == f"{tmp_path}/sagemaker, from SM_MODEL_DIR"
    assert planned["files"] == f"{tmp_path}/channels, from SM_CHANNEL_TEST, SM_CHANNEL_TRAIN"
    assert planned["data"].startswith("images: 16 images to train on and 16 to evaluate on")


def test_folders_of_the_data_that_are_left_out_are_named(plan, scans, tmp_path):
    for split in ("train", "test", "valid", "more"):
        others_like(scans, tmp_path / "split" / split)
    planned = plan("--dataset", "images", "--data-dir", tmp_path / "split")
    assert planned["files"] == f"{tmp_path}/split, without more"
    assert planned["validation"] == "16 images, valid, not used without --evaluate-every"


def test_the_plan_of_a_fine_tuning_has_its_phases_and_their_steps(plan, scans):
    data = ["--dataset", "images", "--data-dir", scans, "--batch-size", "2", "--model", "efficientnet_b0"]
    planned = plan(*data, "--phases", PHASES, "--replicas", "2")
    assert (planned["phases"], planned["steps"]) == (PHASES, "9: 3 epochs of 3 steps")
    assert planned["rate"] == "that of each phase, not scaled by the 2 replicas, constant"
    assert plan(*data, "--freeze", "block4a_bn")["model"].endswith(", freeze=block4a_bn")


@pytest.fixture
def begun(files, tmp_path):
    """The folder of a run on `scans`, trained to step 7."""
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    training = {"epochs": 3, "max_steps": None, "replicas": 2, "evaluate_every": 5, "keep_best": True}
    (tmp_path / "begun" / "run.json").write_text(json.dumps({"settings": settings, "training": training}))
    return "begun"


def test_the_run_of_a_run_json_is_repeated_and_flags_given_win(plan, begun):
    repeated = plan("--config", f"{begun}/run.json")
    assert repeated["model"] == "vgg16 for images of 64x64, starting from imagenet, freeze=block4_pool"
    assert repeated["steps"] == "3: 3 epochs of 1 step"
    assert repeated["batch"] == "8 images on each of 2 replicas: 16 a step"
    best = "the checkpoint of the best loss is kept"
    once = "then once on the 4 images to evaluate on"
    assert repeated["evaluation"] == f"every 5 steps and at the end on the validation images; {best}; {once}"
    assert (repeated["seed"], repeated["folder"]) == ("5", "runs/images")
    changed = plan("--config", f"{begun}/run.json", "--gpus", "3", "--max-steps", "9", "--model", "small_cnn")
    assert changed["devices"] == "the first 3 GPUs"
    assert changed["steps"] == "9: 9 epochs of 1 step"
    assert changed["model"] == "small_cnn for images of 64x64"


def test_a_resumed_run_keeps_its_settings_but_may_train_longer(plan, begun, scans, tmp_path):
    resumed = plan("--model-dir", begun, "--resume")
    assert resumed["folder"] == "begun, continuing from model.ckpt-7"
    assert (resumed["model"], resumed["seed"]) == ("vgg16 for images of 64x64, freeze=block4_pool", "5")
    moved = shutil.copytree(scans, tmp_path / "moved")
    flags = ["--data-dir", moved, "--epochs", "5", "--gpus", "1", "--evaluate-every", "8"]
    assert resumed["rate"] == "0.0001, not scaled by the 2 replicas, constant"
    assert plan("--model-dir", begun, "--resume", *flags) == resumed | {
        "files": str(moved),
        "rate": "0.0001, constant",
        "steps": "10: 5 epochs of 2 steps",
        "batch": "8 images",
        "devices": "the first GPU",
        "checkpoints": "every 8 steps and at the end",
        "evaluation": "every 8 steps and at the end; the checkpoint of the best loss is kept",
    }


def test_a_run_that_is_not_there_yet_is_started_with_resume_too(plan, scans):
    assert plan("--dataset", "images", "--data-dir", scans, "--resume")["folder"] == "runs/images"


def test_a_dry_run_downloads_nothing_and_plans_without_the_data(plan, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = "84,452, 5.8 GB, from Kaggle: paultimothymooney/kermany2018"
    assert plan("--dataset", "oct2017", "--class-weights", "balanced", "--replicas", "2") == {
        "data": f"oct2017: not here; training downloads it first ({source})",
        "model": "the dataset's default",
        "steps": "the dataset's default",
        "batch": "the dataset's default on each of 2 replicas",
        "devices": "2 replicas on the CPU: EPYC, 2 cores",
        "optimizer": "the model's",
        "rate": "the model's, not scaled by the 2 replicas",
        "class weight": "balanced",
        "checkpoints": "every 10 minutes and at the end",
        "evaluation": "at the end",
        "folder": "runs/oct2017",
    }
    planned = plan("--dataset", "oct2017", "--model", "vgg16", "--batch-size", "8", "--epochs", "3")
    assert (planned["model"], planned["batch"]) == ("vgg16, starting from imagenet, freeze=block4_pool", "8 images")
    assert planned["steps"] == "3 epochs"


def test_a_dry_run_unpacks_nothing(plan, command, tmp_path):
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("OCT2017 /train/CNV/CNV-1-1.jpeg", b"")
    source = "84,452, 5.8 GB, from Kaggle: paultimothymooney/kermany2018"
    for place in ("archive.zip", "."):
        planned = plan("--dataset", "oct2017", "--data-dir", place)
        assert planned["data"] == f"oct2017: not here; training unpacks it first ({source})"
    code, _, errors = command("memory", "--dataset", "oct2017", "--data-dir", "archive.zip")
    assert code == 2 and "oct2017 is not here; give --model and --image-size instead" in errors
    assert os.listdir(tmp_path) == ["archive.zip"]


@pytest.mark.parametrize("flags", [["--dataset", "images"], ["--dataset", "manifest"], ["--dataset", "oct2017"]])
def test_a_dry_run_of_missing_files_says_the_plan_and_what_is_missing(command, flags):
    code, output, errors = command(*flags, "--data-dir", "nowhere/x", "--max-steps", "9", "--dry-run")
    kind = "file" if "manifest" in flags else "folder"
    assert (code, errors) == (2, f"estimator_train: there is no {kind} nowhere/x\n")
    lines = {line[:12].rstrip(): line[13:] for line in output.splitlines()}
    assert lines["data"] == f"{flags[-1]}: there is no {kind} nowhere/x"
    assert (lines["steps"], lines["folder"]) == ("9", f"runs/{flags[-1]}")


def test_a_run_whose_files_are_missing_is_planned_from_its_settings(command, begun, scans, tmp_path):
    text = (tmp_path / begun / "run.json").read_text().replace(str(scans), "gone")
    (tmp_path / begun / "run.json").write_text(text)
    code, output, errors = command("--model-dir", begun, "--resume", "--dry-run")
    where = "if the run's data has moved, say where with --data-dir, of evaluate or of train --resume"
    assert (code, errors) == (2, f"estimator_train: there is no folder gone; {where}\n")
    assert "vgg16 for images of 64x64" in output and "continuing from model.ckpt-7" in output


def test_a_dry_run_draws_nothing_and_says_the_whole_plan(plan, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said = plan()
    assert said["data"] == "synthetic_oct: 800 images to train on and 200 to evaluate on, in 4 classes"
    assert said["classes"] == "CNV 200 + 50, DME 200 + 50, DRUSEN 200 + 50, NORMAL 200 + 50"
    assert said["steps"] == "300: 12 epochs of 25 steps"
    drawn = tmp_path / "cache" / "estimator_train" / "synthetic_oct" / "seed-0"
    assert said["files"] == f"{drawn}, drawn when training starts"


def test_a_data_dir_alone_is_read_as_what_its_folders_are(plan, command, scans, tmp_path):
    said = plan("--data-dir", scans)
    numbers = "12 images to train on and 4 to evaluate on, in 2 classes"
    assert (said["data"], said["folder"]) == (f"images: {numbers}, from --data-dir", "runs/images")
    assert plan("--data-dir", scans, "--resume")["folder"] == "runs/images", "as a run that is not there yet"
    for name in ("CNV", "DME", "DRUSEN", "NORMAL"):
        for above in ("own", "four/train", "five/train"):
            others_like(scans / "dark", tmp_path / above / name)
    (tmp_path / "five" / "train" / "AMD").symlink_to(scans / "dark")
    code, output, _ = command("--data-dir", "four", "--dry-run")
    assert code == 0 and "vgg16 for images of 224x224, starting from imagenet" in output
    assert "oct2017: 27 images to train on and 5 to evaluate on, in 4 classes, from --data-dir" in output
    assert plan("--data-dir", "own")["data"].startswith("images: 27 images to train on and 5 to ")
    assert plan("--data-dir", "five")["data"].startswith("images: ")


def test_a_run_that_has_lost_its_checkpoints_says_that_it_starts_at_step_0(command, files):
    code, _, errors = command("--model-dir", "run", "--resume", "--dry-run")
    assert (code, errors) == (0, "estimator_train: run holds a run but no checkpoint: it starts at step 0\n")


def test_augmentation_of_what_is_no_image_is_one_line(command, own_flags):
    code, _, errors = command(*own_flags, "--max-steps", "1", "--augment", "flip", "--quiet")
    assert (code, errors.count("\n")) == (2, 1)
    assert (
        "augmentation takes float images of shape (batch, height, width, channels); leave it out for <tf.Tensor"
        in errors
    )
