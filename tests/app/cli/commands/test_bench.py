"""bench trains with each number of replicas in a separate process, and compares TimingHook's measurements."""

import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import tensorflow as tf
import warm_python

from estimator_train.app import cli
from estimator_train.app.report import scaling

ROOT = Path(__file__).parents[4]
MODULE = sys.modules[f"{cli.__name__}.commands.bench"]  # `cli.bench` is the command


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def timing(replicas, seconds, input_wait_share=0.0):
    """Returns TimingHook's summary for batches of 8 per replica."""
    return {
        "mean_seconds": seconds,
        "examples_per_second": 8 * replicas / seconds,
        "input_wait_share": input_wait_share,
    }


@pytest.fixture
def measured(monkeypatch):
    """Replaces the processes: runs on 1 and 2 replicas, of data of 100 examples. Gives the flags of each."""
    flags_of_runs = []

    def timing_of_run(flags, steps, model_dir):
        flags_of_runs.append(flags)
        Path(model_dir, "run").mkdir()
        Path(model_dir, "run", "run.json").write_text(json.dumps({"settings": {}, "data": {"train": 100}}))
        return {"1": timing(1, 0.4, 0.01), "2": timing(2, 0.5, 0.02)}[flags[flags.index("--replicas") + 1]]

    monkeypatch.setattr(MODULE, "timing_of_run", timing_of_run)
    return flags_of_runs


def test_the_table_has_what_people_ask_of_scaling(command, measured, tmp_path):
    code, output, errors = command("bench", "--dataset", "images", "--replicas", "1,2", "--batch-size", 8, "--steps", 5)
    assert code == 0, errors
    header, _, first, second, limit, _ = output.splitlines()
    assert header.split("  ")[-1].strip() == "efficiency"
    assert first.split() == ["1", "13", "400.0", "5.2", "20.0", "1%", "1.00", "100%"]
    assert second.split() == ["2", "7", "500.0", "3.5", "32.0", "2%", "1.60", "80%"]
    assert limit.startswith("The CPU limits the scaling: on 2 replicas a step takes 100.0 ms longer than on 1, as all")
    given = ["--dataset", "images", "--batch-size", "8"]
    assert measured == [[*given, "--replicas", count, "--max-steps", "6"] for count in "12"]
    told = json.loads((tmp_path / "bench" / "scaling.json").read_text())
    assert told["flags"] == given and [row["speed_up"] for row in told["scaling"]] == [1, 1.6]
    assert (tmp_path / "bench" / "scaling.png").read_bytes().startswith(b"\x89PNG")


def test_a_remote_folder_gets_the_measurements_and_the_plot(command, measured, tmp_path):
    code, output, errors = command("bench", "--dataset", "images", "--replicas", "2", "--out", "ram://runs/bench")
    assert code == 0, errors
    assert output.splitlines()[-1] == "the plot is ram://runs/bench/scaling.png"
    with tf.io.gfile.GFile("ram://runs/bench/scaling.json") as file:
        assert [row["replicas"] for row in json.load(file)["scaling"]] == [2]
    with tf.io.gfile.GFile("ram://runs/bench/scaling.png", "rb") as file:
        assert file.read().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_examples_per_second_are_those_of_the_timing_of_the_runs(command, scans, monkeypatch):
    files = []
    run = MODULE.timing_of_run

    def keeping_files(flags, steps, model_dir):
        timing = run(flags, steps, model_dir)
        files.append(json.loads(Path(model_dir, "run", "timing.json").read_text()))
        return timing

    monkeypatch.setattr(MODULE, "timing_of_run", keeping_files)

    def start(command, stderr, **_):
        return warm_python.Popen(command[1:], stderr=stderr.name)

    monkeypatch.setattr(MODULE, "subprocess", types.SimpleNamespace(**vars(subprocess) | {"Popen": start}))
    small = ["--model", "small_cnn", "--image-size", 24, "--batch-size", 2, "--steps", 4]
    code, output, errors = command("bench", "--dataset", "images", "--data-dir", scans, "--replicas", "2", *small)
    assert code == 0, errors
    row, (timing,) = output.splitlines()[2].split(), files
    assert row[:2] == ["2", "3"]  # 12 of 16 images are trained on
    assert row[4] == f"{timing['examples_per_second']:.1f}"
    assert (timing["steps"], timing["warmup_steps"]) == (4, 1)


def test_a_run_that_fails_ends_it_with_its_last_line(command, tmp_path):
    code, output, errors = command("bench", "--dataset", "images", "--data-dir", "nowhere", "--replicas", "1,2")
    assert (code, output) == (2, "")
    run = "--dataset images --data-dir nowhere --replicas 1 --max-steps 21"
    assert errors == f"estimator_train: {run} failed: there is no folder nowhere\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--dataset images --replicas 0", "'0' is not a list of different numbers such as 1,2,4"),
        ("--dataset images --replicas 1,,2", "'1,,2' is not a list of different numbers"),
        ("--dataset images --gpus all", "'all' is not a list of different numbers"),
        ("--dataset images --replicas 2,2", "'2,2' is not a list of different numbers"),
        ("--dataset images --replicas 1 --gpus 1", "give --gpus 1,2,4 or --replicas 1,2"),
        ("--replicas 1", "bench trains on a dataset: give --dataset NAME"),
        ("--recipe cats_vs_dogs", "--recipe has left the command: copy examples/cats_vs_dogs.py from the repository"),
        ("--dataset images --replicas 1 --max-steps=9", "--max-steps=9 is not for bench"),
        ("--dataset images --epochs 2", "--epochs is not for bench"),
        ("--dataset images --find-learning-rate", "--find-learning-rate is not for bench"),
        ("--dataset images --verbose", "--verbose is not for bench"),
    ],
)
def test_bad_input_is_one_line(command, flags, message):
    code, output, errors = command("bench", *flags.split())
    assert (code, output) == (2, "")
    assert message in errors and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("eight", "cores", "limit"),
    [
        (timing(8, 0.105), None, "Scaling is close to ideal: 95% on 8 replicas."),
        (timing(8, 0.2, 0.5), None, "Input limits the scaling: .* takes 100.0 ms longer .* 90.0 ms of it waiting"),
        (timing(8, 0.2, 0.5), 2, "Input limits the scaling"),
        (timing(8, 0.2, 0.1), 2, "The CPU limits the scaling: .* share its 2 cores"),
        (timing(8, 0.2, 0.1), None, "The fixed cost of a step limits the scaling: .* longer than on 1, 90.0 ms of it"),
    ],
)
def test_what_limits_the_scaling_is_what_makes_a_step_longer(eight, cores, limit):
    rows = scaling.scaling({1: timing(1, 0.1, 0.1), 8: eight})
    assert re.match(limit, scaling.limit(rows, cores))
