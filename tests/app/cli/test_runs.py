"""Complete runs of the command: trained, stopped in every way, resumed and evaluated."""

import csv
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import warm_python
from PIL import Image

pytestmark = pytest.mark.slow

REAL = Path(__file__).parents[4] / "shared" / "data" / "OCT2017"

OWN_FLAGS = [
    "--input-fn",
    "own.py:train_input_fn",
    "--eval-input-fn",
    "own.py:eval_input_fn",
    "--model",
    "own.py:build",
]
OWN_CODE = """
import numpy as np
import tensorflow as tf
import tf_keras as keras

def train_input_fn():
    x = np.linspace(-1, 1, 64, dtype="float32")[:, None]
    return tf.data.Dataset.from_tensor_slices((x, 2 * x)).repeat().batch(8)

def eval_input_fn():
    return train_input_fn().take(8)

def build():
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model
"""


@pytest.fixture
def folder(tmp_path):
    """A folder of 24 noisy images in two classes, one dark and one bright."""
    rng = np.random.default_rng(3)
    for label, level in (("dark", 60), ("bright", 190)):
        (tmp_path / "scans" / label).mkdir(parents=True)
        for index in range(12):
            pixels = np.clip(rng.normal(level, 20, (40, 48)), 0, 255).astype("uint8")
            Image.fromarray(pixels).save(tmp_path / "scans" / label / f"{index}.jpeg")
    return tmp_path / "scans"


def test_train_resume_and_evaluate_a_folder_on_two_replicas(command, folder, tmp_path):
    flags = ["--dataset", "images", "--data-dir", folder, "--model", "small_cnn", "--image-size", "32"]
    flags += ["--model-dir", "run", "--batch-size", "4", "--replicas", "2", "--seed", "1"]
    flags += ["--save-checkpoints-steps", "4"]
    code, first, errors = command(*flags, "--max-steps", "6")
    assert code == 0, errors
    assert "trained 6 steps" in first and "evaluated run/model.ckpt-6: loss" in first
    assert first.index("evaluating run/model.ckpt-6\n") < first.index("trained 6 steps")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["class_names"] == ["bright", "dark"]
    assert json.loads((tmp_path / "run" / "timing.json").read_text())["steps"] == 5

    code, second, errors = command("--model-dir", "run", "--resume", "--max-steps", "10", "--steps-per-loop", "3")
    assert code == 0, errors
    assert "trained 4 steps" in second and "model.ckpt-10" in second

    code, table, errors = command("evaluate", "--model-dir", "run", "--all")
    assert code == 0, errors
    accuracies = dict(re.findall(r"model\.ckpt-(\d+) +\d+ +\S+ +(\S+)", table))
    assert {"0", "6", "10"} <= accuracies.keys()
    assert accuracies["10"] == re.search(r"accuracy (\S+)$", second.strip()).group(1)


def test_a_killed_run_resumes_from_its_last_whole_checkpoint(command, warnings, tmp_path):
    (tmp_path / "own.py").write_text(OWN_CODE)
    flags = [*OWN_FLAGS, "--model-dir", "run", "--save-checkpoints-steps", "20"]
    process = warm_python.Popen(["-m", "estimator_train", *flags, "--max-steps", "1000000"], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "run").glob("model.ckpt-[1-9]*.index")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    state = (tmp_path / "run" / "checkpoint").read_text()
    saved = [int(step) for step in re.findall(r'^all_model_checkpoint_paths: "model\.ckpt-(\d+)"', state, re.MULTILINE)]
    code, output, errors = command(*flags, "--max-steps", saved[-1] + 30, "--resume")
    assert code == 0, errors
    assert "trained 30 steps" in output

    # A checkpoint cut short is reported, and the one before it is used.
    newest = saved[-1] + 30
    data = tmp_path / "run" / f"model.ckpt-{newest}.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    code, output, errors = command(*flags, "--max-steps", newest + 10, "--resume")
    assert code == 0, errors
    assert f"model.ckpt-{newest} is damaged" in "".join(warnings)
    assert "trained 20 steps" in output  # 10 of them again


def test_the_embedded_data_set_is_learnt(tmp_path):
    # By default it has 96 pixels and 12 epochs of larger batches.
    flags = ["--seed", "1", "--image-size", "64", "--batch-size", "8", "--epochs", "4", "--cache", "memory"]
    result = warm_python.run(["-m", "estimator_train", *flags], tmp_path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert float(re.search(r"accuracy (\S+)$", result.stdout.strip()).group(1)) >= 0.9


@pytest.mark.skipif(not REAL.is_dir(), reason="the real OCT images are not here")
def test_the_flagship_trains_and_evaluates_on_real_scans_on_two_replicas(command):
    flags = ["--dataset", "oct2017", "--data-dir", REAL, "--weights", "none", "--image-size", "32", "--replicas", "2"]
    flags += ["--batch-size", "5", "--model-dir", "run", "--optimizer", "sgd"]  # without slots, in small checkpoints
    code, output, errors = command(*flags, "--max-steps", "2")
    assert code == 0, errors
    assert "20 images to train on and 8 to evaluate on, in 4 classes" in output
    assert "CNV 5 + 2, DME 5 + 2, DRUSEN 5 + 2, NORMAL 5 + 2" in output
    assert "trained 2 steps" in output and "evaluated run/model.ckpt-2: loss" in output
    code, output, _ = command("evaluate", "--model-dir", "run", "--predictions", "predictions.csv")
    assert code == 0 and ", of 8 examples\n" in output
    assert max(map(len, output.splitlines())) <= 80
    _, *rows = csv.reader(Path("predictions.csv").read_text().splitlines())
    assert len(rows) == 8 and all(true_class == Path(path).parent.name for path, true_class, *_ in rows)


@pytest.mark.gpu(2)
def test_a_folder_is_trained_on_by_two_gpus(folder, tmp_path):
    flags = ["--dataset", "images", "--data-dir", folder, "--model", "small_cnn", "--image-size", "32"]
    flags += ["--model-dir", "run", "--batch-size", "4", "--gpus", "2", "--max-steps", "2"]
    result = warm_python.run(["-m", "estimator_train", *flags], tmp_path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "trained 2 steps" in result.stdout
    devices = re.findall(r'"GPU:(\d) [^"]+"', (tmp_path / "run" / "run.json").read_text())
    assert devices == ["0", "1"]


def test_undecodable_images_are_all_named_and_the_run_starts_again(command, folder):
    whole, (first, *others) = (folder / "dark" / "4.jpeg").read_bytes(), sorted((folder / "dark").glob("*"))[:4]
    for bad in (first, *others):
        bad.write_bytes(whole[:200])
    flags = ["--dataset", "images", "--data-dir", folder, "--model", "small_cnn", "--image-size", "32", "--epochs", "9"]
    code, _, errors = command(*flags)
    assert code == 2
    assert "Traceback" not in errors
    lines = errors.splitlines()
    assert f"estimator_train: {first} cannot be decoded: no readable image; delete it" in lines
    assert {f"{bad} cannot be decoded: no readable image; delete it" for bad in others} <= set(lines)
    move = lines[-1].removeprefix("instead of deleting them, you can move them away: ")
    subprocess.run(move, shell=True, check=True)
    assert not any(bad.exists() for bad in (first, *others)) and len(os.listdir("__damaged")) == 4
    for bad in (first, *others):
        bad.write_bytes(whole)
    assert command(*flags, "--dry-run")[0] == 0


def test_a_checkpoint_of_another_model_names_the_variables(command, tmp_path):
    (tmp_path / "own.py").write_text(OWN_CODE)
    assert command(*OWN_FLAGS, "--max-steps", "2")[0] == 0
    # The new file has another size: Python runs the old bytecode if size and second of the change are the same.
    (tmp_path / "own.py").write_text(OWN_CODE.replace("keras.layers.Dense(1,", "keras.layers.Dense(12,"))
    # In a process that has not imported own.py.
    flags = [*OWN_FLAGS, "--max-steps", "4", "--resume"]
    result = warm_python.run(["-m", "estimator_train", *flags], tmp_path, cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "layer_with_weights-0/kernel is (1, 1) in the checkpoint and (1, 12) in the model" in result.stderr


@pytest.mark.slow
def test_plan_and_training_start_from_one_intact_checkpoint(command, scans, tmp_path):
    flags = ["--dataset", "images", "--data-dir", scans, "--model", "small_cnn", "--image-size", "16", "--epochs", "2"]
    code, _, errors = command(*flags, "--batch-size", "4", "--save-checkpoints-steps", "3", "--model-dir", "run")
    assert code == 0, errors
    newest = tmp_path / "run" / "model.ckpt-6.data-00000-of-00001"
    content = newest.read_bytes()
    resume = ["--model-dir", "run", "--resume", "--replicas", "2", "--epochs", "3"]

    newest.write_bytes(content[:-1])
    _, output, _ = command(*resume, "--dry-run")
    assert "steps        7: the rest of 3 epochs of 2 steps\n" in output and "continuing from model.ckpt-3\n" in output
    newest.write_bytes(bytes([*content[:-1], content[-1] ^ 1]))  # which only TensorFlow finds
    code, output, errors = command(*resume)
    assert code == 0, errors
    assert "steps        8: the rest of 3 epochs of 2 steps\n" in output and "continuing from model.ckpt-6\n" in output
    assert "continuing from model.ckpt-3 instead, to step 7\n" in output
    assert "evaluated run/model.ckpt-7: " in output
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (about["last_step"], about["steps_per_epoch"]) == (7, [[0, 3], [3, 2]])
