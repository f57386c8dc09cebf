"""Training checks for its GPUs before it downloads a dataset."""

import re
from pathlib import Path

import pytest
import warm_python

from estimator_train.app import datasets
from tests.test_docs import draw_oct2017

ROOT = Path(__file__).parents[4]


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


@pytest.mark.parametrize("there", [0, 1, 2, 4, 8])
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
        ("--recipe unet3d --volume 8 --filters 2 --gpus 2", "GPU:0 GPU:1", "0,1 True"),
        ("--recipe cyclegan --gpus 4", "GPU:0 GPU:1 GPU:2 GPU:3", "0,1,2,3 True"),
    ],
)
def test_every_way_of_training_on_gpus_reaches_its_first_kernel(flags, devices, opened, tmp_path):
    small = "" if "--recipe" in flags else "--limit 8 --model small_cnn --image-size 32"
    done = pretended(4, f"{small} {flags} --model-dir {tmp_path / 'run'}", tmp_path)
    assert done.stdout.splitlines()[-2:] == [f"first kernel: {devices}", f"opened: {opened}"], done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("there", [4, 8])
def test_the_example_of_the_flagship_reaches_its_first_kernel(there, tmp_path):
    code = f"""
import sys
from tests.helpers import small_script
stop_at_scope()
small_script.main({str(ROOT / "examples" / "oct2017.py")!r}, {str(tmp_path)!r})
"""
    done = warm_python.run(["-m", "tests.helpers.pretended_gpus", there, code], tmp_path, cwd=ROOT)
    devices = [f"GPU:{index}" for index in range(there)]
    assert f"first kernel: {' '.join(devices)}" in done.stdout.splitlines(), done.stderr[-2000:]


def pretended(count, flags, folder):
    """Runs the command on a machine with that many pretended GPUs."""
    arguments = ["estimator_train", *flags.split()]
    code = f"import sys; sys.argv = {arguments!r}; stop_at_scope(); from estimator_train.app.cli import main; main()"
    return warm_python.run(["-m", "tests.helpers.pretended_gpus", count, code], folder, cwd=ROOT)
