"""Training checks for its GPUs before it downloads a dataset."""

import json
import re
from pathlib import Path

import pytest
import warm_python

from estimator_train.app import datasets
from tests.test_docs import draw_oct2017

ROOT = Path(__file__).parents[3]
COUNTS = (0, 1, 4)


def test_too_few_gpus_are_refused_before_a_dataset_is_downloaded(command, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    opened = []
    monkeypatch.setattr(datasets, "open_dataset", lambda name, *_, **__: opened.append(name))
    code, output, errors = command("--dataset", "oct2017", "--gpus", "99")
    assert (code, output, opened) == (2, "", [])
    assert re.fullmatch(
        r"estimator_train: --gpus 99: TensorFlow sees \d+; (use --gpus \d+; )?use --replicas 99 for CPU replicas\n",
        errors,
    )


@pytest.mark.parametrize("there", [0, 1, pytest.param(4, marks=pytest.mark.slow)])
def test_the_flagship_reaches_its_first_kernel_on_two_of_the_gpus(there, tmp_path):
    draw_oct2017(tmp_path / "OCT2017")
    data = f"--dataset oct2017 --data-dir {tmp_path / 'OCT2017'} --weights none --batch-size 2 --image-size 32"
    done = pretended(there, f"{data} --gpus 2 --model-dir {tmp_path / 'run'}", tmp_path)
    if there < 2:
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith(f"estimator_train: --gpus 2: TensorFlow sees {there}; ")
    else:
        assert done.stdout.splitlines()[-2:] == ["first kernel: GPU:0 GPU:1", "opened: 0,1 True"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "devices", "opened"),
    [
        ("--gpus 1", "GPU:0", "0 True"),
        ("--gpus 3 --all-reduce nccl", "GPU:0 GPU:1 GPU:2", "0,1,2 True"),
        ("--gpus 2 --find-learning-rate", "GPU:0 GPU:1", "0,1 True"),
        ("--gpus 2 --mixed-precision float16", "GPU:0 GPU:1", "0,1 True"),
        ("--gpus 4", "GPU:0 GPU:1 GPU:2 GPU:3", "0,1,2,3 True"),
    ],
)
def test_every_way_of_training_on_gpus_reaches_its_first_kernel(flags, devices, opened, tmp_path):
    small = "--limit 8 --model small_cnn --image-size 32"
    done = pretended(4, f"{small} {flags} --model-dir {tmp_path / 'run'}", tmp_path)
    assert done.stdout.splitlines()[-2:] == [f"first kernel: {devices}", f"opened: {opened}"], done.stderr[-2000:]


@pytest.mark.parametrize("there", COUNTS)
def test_a_script_is_shown_the_first_gpus_alone(there, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from tests.helpers.pretended_gpus import opened\nprint(*opened())")
    done = pretended(there, f"run --gpus 2 {script}", tmp_path)
    if there < 2:
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith(f"estimator_train: --gpus 2: TensorFlow sees {there}; ")
    else:
        assert done.stdout.splitlines() == ["0,1 True"]


@pytest.mark.slow
@pytest.mark.parametrize("there", COUNTS)
def test_an_evaluator_leaves_memory_of_gpus_to_the_workers(there, tmp_path):
    task = {"cluster": {"chief": ["localhost:2222"]}, "task": {"type": "evaluator", "index": 0}}
    evaluate = f"""
import os
os.environ["TF_CONFIG"] = {json.dumps(json.dumps(task))}
from estimator_train.app.running import training
training._train_and_evaluate = lambda *_, **__: print("opened:", *opened())
"""
    flags = "--limit 8 --model small_cnn --image-size 32 --max-steps 1 --gpus 2"
    done = pretended(there, f"{flags} --model-dir {tmp_path / 'run'}", tmp_path, evaluate)
    assert done.stdout.splitlines()[-1] == f"opened: {','.join(map(str, range(there)))} {there > 0}", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "method"),
    [
        ("evaluate", "evaluate"),
        ("report", "evaluate"),
        ("predict {scan}", "predict"),
        ("export {out}", "export_saved_model"),
    ],
    ids=["evaluate", "report", "predict", "export"],
)
def test_commands_on_a_run_leave_memory_of_gpus_to_others(command, method, trained, scans, tmp_path):
    command = command.format(scan=scans / "dark" / "0.jpeg", out=f"--format saved_model --out {tmp_path / 'out'}")
    stop = f"""
from estimator_train.estimator import Estimator
def stop(*_, **__):
    print("opened:", *opened())
    raise SystemExit(0)
Estimator.{method} = stop
"""
    name, _, rest = command.partition(" ")
    done = pretended(2, f"{name} --model-dir {trained.model_dir} {rest}", tmp_path, stop)
    assert "opened: 0,1 True" in done.stdout.splitlines(), done.stderr[-2000:]


@pytest.mark.parametrize(("there", "flags"), [(4, ["--quiet", "", "--gpus 2"]), (1, [""])])
def test_gpus_that_a_plain_training_leaves_idle_are_a_line(there, flags, tmp_path):
    stop = "from estimator_train.app.running import training\ntraining._train = lambda *_: sys.exit(0)\nimport sys"
    small = f"--limit 8 --model small_cnn --image-size 32 --max-steps 1 --model-dir {tmp_path}"
    done = pretended(there, "\n".join(f"{small}/{index} {more}" for index, more in enumerate(flags)), tmp_path, stop)
    line = "estimator_train: training uses 1 of 4 GPUs; --gpus 4 uses all"
    said = [line in errors.splitlines() for errors in done.stderr.split("next\n")]
    assert said == [(there, more) == (4, "") for more in flags], done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("there", COUNTS)
@pytest.mark.parametrize("side", ["ours", "fit"])
def test_the_benchmark_of_gpus_reaches_its_first_kernel(side, there, tmp_path):
    draw_oct2017(tmp_path)
    code = f"""
from benchmarks.gpu.lines import VGG16, Training
from benchmarks.gpu.machine import describe
from benchmarks.gpu.training import measure
stop_at_scope()
print(describe()["gpus"])
sizes = {{"image_size": [32, 32], "batch_size": 2, "steps": 1}}
try:
    measure(Training(VGG16, {side!r}), {{"kind": "gpu", "count": 2}}, {str(tmp_path / "train")!r}, sizes)
except ValueError as error:
    print(error)
"""
    done = warm_python.run(["-m", "tests.helpers.pretended_gpus", there, code], tmp_path, cwd=ROOT)
    found, *lines = done.stdout.splitlines()
    assert found == str(there)
    if there < 2:
        assert lines[0].startswith(f"gpus(2): TensorFlow sees {there}; ")
    else:
        assert lines[-2:] == ["first kernel: GPU:0 GPU:1", "opened: 0,1 True"], done.stderr[-2000:]


@pytest.mark.slow
def test_the_example_of_the_flagship_reaches_its_first_kernel_on_all_gpus(tmp_path):
    code = f"""
import sys
from tests.helpers import small_script
stop_at_scope()
small_script.main({str(ROOT / "examples" / "oct2017.py")!r}, {str(tmp_path)!r})
"""
    done = warm_python.run(["-m", "tests.helpers.pretended_gpus", 4, code], tmp_path, cwd=ROOT)
    assert "first kernel: GPU:0 GPU:1 GPU:2 GPU:3" in done.stdout.splitlines(), done.stderr[-2000:]


def pretended(count, flags, folder, before=""):
    """Runs the command on a machine with that many pretended GPUs, after the code `before`, and for each line of flags.

    "next" on standard error parts the lines.
    """
    lines = [["estimator_train", *line.split()] for line in flags.splitlines()]
    code = f"""
{before}
import sys
from estimator_train.app.cli import main
stop_at_scope()
for index, sys.argv in enumerate({lines!r}):
    if index:
        print("next", file=sys.stderr)
    try:
        main()
    except SystemExit as end:
        code = end.code
sys.exit(code)
"""
    return warm_python.run(["-m", "tests.helpers.pretended_gpus", count, code], folder, cwd=ROOT)
