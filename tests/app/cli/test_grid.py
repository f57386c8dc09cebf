"""Datasets, ways of training and the commands that follow: each combination gives a result."""

import contextlib
import itertools
import re
import shutil
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import warm_python
from PIL import Image

from estimator_train.app.datasets import fashion_mnist
from estimator_train.app.datasets.tfds import TfdsSplit
from tests.test_docs import draw_oct2017

tfds = pytest.importorskip("tensorflow_datasets")

ROOT = Path(__file__).parents[2]

_WAYS = {
    "plain": "",
    "evaluations": "--evaluate-every 1 --keep-best --monitor accuracy:max",
    "replicas": "--replicas 2",
    "resumed": "",
    "cache": "--cache memory --augment flip",
    "averages": "--ema 0.9 --class-weights balanced",
    "long steps": "--accumulate-steps 2 --steps-per-loop 2 --log csv",
}
_VERBS = {
    "evaluate": "--model-dir run --all",
    "predict": "--model-dir run one.png",
    "report": "--model-dir run",
    "export": "--model-dir run --format saved_model --out exported",
    "compare": "run other",
}
_IN_MEMORY_OR_RECORDS = ("fashion_mnist", "npz", "tfrecord", "tfds:mnist")
_REFUSED = {  # flags that one line refuses; the training goes on without them
    **{(dataset, "cache"): "--cache memory" for dataset in _IN_MEMORY_OR_RECORDS},
    **{(dataset, "averages"): "--class-weights balanced" for dataset in _IN_MEMORY_OR_RECORDS if dataset != "npz"},
}


def _pixels(label):
    return np.full((16, 16, 3), 60 + 100 * label, np.uint8)


def _npz(folder):
    x, y = np.stack([_pixels(index % 2) for index in range(8)]), np.arange(8, dtype=np.uint64) % 2
    np.savez(folder / "a.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return folder / "a.npz"


def _example(image=True, label=(1,)):
    features = {}
    if image:
        encoded = tf.io.encode_png(_pixels(1)).numpy()
        features["image/encoded"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded]))
    if isinstance(label, bytes):
        features["image/class/label"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[label]))
    else:
        features["image/class/label"] = tf.train.Feature(int64_list=tf.train.Int64List(value=label))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _tfrecord(folder, examples=None):
    for name in ("train.tfrecord", "test.tfrecord"):
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for example in [_example(label=[index % 2]) for index in range(8)] if examples is None else examples:
                writer.write(example)
    (folder / "labels.txt").write_text("dark\nbright\n")
    return folder


def _images(folder):
    for index in range(8):
        path = folder / "scans" / ("dark", "bright")[index % 2] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(_pixels(index % 2)).save(path)
    return folder / "scans"


def _manifest(folder):
    names = ("dark", "bright")
    rows = [f"{path.relative_to(folder)},{path.parent.name}" for path in sorted(_images(folder).glob("*/*"))]
    assert {row.rpartition(",")[2] for row in rows} == set(names)
    (folder / "labels.csv").write_text("\n".join(["path,label", *rows]))
    return folder / "labels.csv"


def _scans(folder):
    draw_oct2017(folder / "oct")
    return folder / "oct"


_DATASETS = {
    "synthetic_oct": _scans,
    "oct2017": _scans,
    "images": _images,
    "manifest": _manifest,
    "fashion_mnist": lambda folder: None,  # Keras keeps its files
    "cats_vs_dogs": _images,
    "npz": _npz,
    "tfrecord": _tfrecord,
    "tfds:mnist": lambda folder: None,
}


def _flags(dataset, data_dir, model_dir, flags=""):
    data = ["--dataset", dataset, *(["--data-dir", data_dir] if data_dir else []), "--model-dir", model_dir]
    sizes = "--model small_cnn --image-size 16x16 --batch-size 2 --max-steps 2 --save-checkpoints-steps 1"
    return [*data, *sizes.split(), *flags.split()]


def _train(command, *what):
    return command(*_flags(*what))


def _check(outcome):
    code, output, errors = outcome
    assert code == 0, errors
    assert "Traceback" not in errors
    return output


@contextlib.contextmanager
def few_images():
    """Gives fashion_mnist and tfds:mnist eight images, without a download."""
    x, y = np.stack([_pixels(index % 2)[..., 0] for index in range(8)]), np.arange(8, dtype=np.uint8) % 2
    loaded = mock.patch.object(keras.datasets.fashion_mnist, "load_data", lambda: ((x, y), (x, y)))
    counts = mock.patch.object(TfdsSplit, "count", 8)  # the mock has no splits
    with loaded, tfds.testing.mock_data(num_examples=8), counts:
        fashion_mnist._load.cache_clear()
        yield
    fashion_mnist._load.cache_clear()


_TO_BE_KILLED = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from estimator_train.app.cli import main
from tests.app.cli.conftest import quick_small_cnn
from tests.app.cli.test_grid import few_images
with few_images(), quick_small_cnn():
    main()
"""


def _train_until_killed(folder, *what):
    """Kills a training once it has saved steps 1 and 2, and returns the newest saved step."""
    script = folder / "train.py"
    script.write_text(_TO_BE_KILLED)
    errors = folder / "errors"
    process = warm_python.Popen([script, *_flags(*what), "--max-steps", "1000", "--quiet"], folder, stderr=errors)
    while not (folder / "run" / "model.ckpt-2.index").exists():
        assert process.poll() is None, errors.read_text()[-2000:]
        time.sleep(0.05)
    process.kill()
    process.wait()
    return int(re.findall(r'model_checkpoint_path: "model.ckpt-(\d+)"', (folder / "run" / "checkpoint").read_text())[0])


# Every third pair: each way on three datasets, of files and of arrays or records; each dataset in two or three ways.
# Every other pair of these has the other half of the verbs, so that each dataset and each way meets all of them.
# The campaign `python -m tests.fuzz command` draws from all pairs.
_PAIRS = [
    (dataset, way, list(_VERBS)[(row + column) // 3 % 2 :: 2])
    for (row, dataset), (column, way) in itertools.product(enumerate(_DATASETS), enumerate(_WAYS))
    if (row + column) % 3 == 0
]


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "way", "verbs"), _PAIRS)
def test_a_training_gives_a_run_for_every_command(dataset, way, verbs, command, tmp_path):
    Image.fromarray(_pixels(1)).save(tmp_path / "one.png")
    data_dir = _DATASETS[dataset](tmp_path)
    with few_images():
        if way == "resumed":
            newest = _train_until_killed(tmp_path, dataset, data_dir, "run")
            outcome = command("--model-dir", "run", "--resume", "--max-steps", newest + 2)
        else:
            flags = _WAYS[way]
            if refused := _REFUSED.get((dataset, way)):
                code, _, errors = _train(command, dataset, data_dir, "run", flags)
                assert (code, errors.count("\n")) == (2, 1) and "Traceback" not in errors, errors
                flags = flags.replace(refused, "")
            outcome = _train(command, dataset, data_dir, "run", flags)
        assert "evaluated" in _check(outcome)
        shutil.copytree(tmp_path / "run", tmp_path / "other")
        outputs = {verb: _check(command(verb, *_VERBS[verb].split())) for verb in verbs}
        assert all(outputs.values()) and "accuracy" in outputs.get("compare", "accuracy")


@pytest.mark.slow
def test_arrays_in_memory_can_be_evaluated_during_training(command, tmp_path):
    flags = _WAYS["evaluations"]
    assert "the best checkpoint is kept" in _check(_train(command, "npz", _npz(tmp_path), "run", flags))


@pytest.mark.slow
def test_records_are_not_taken_for_images(command, tmp_path):
    _check(_train(command, "tfrecord", _tfrecord(tmp_path), "run"))
    assert (tmp_path / "run" / "predictions.csv").read_text().count("\n") == 9


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([_example(image=False)], "has no feature image/encoded"),
        ([_example(label=[0, 1])], "one value of the right type as image/class/label"),
        ([_example(label=b"1")], "one value of the right type as image/class/label"),
        ([], "have no records"),
    ],
    ids=["no image", "two labels", "bytes", "empty"],
)
def test_records_of_something_else_are_one_line(examples, message, command, tmp_path):
    code, _, errors = _train(command, "tfrecord", _tfrecord(tmp_path, examples), "run", "--quiet")
    assert code == 2 and message in errors and "Traceback" not in errors


def test_a_run_behind_a_link_is_one_folder_to_all_commands(command, tmp_path):
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    _check(_train(command, "npz", _npz(tmp_path), "link/../run", "--quiet"))
    assert (tmp_path / "elsewhere" / "run" / "model.ckpt-2.index").exists() and not (tmp_path / "run").exists()
    assert "model.ckpt-2" in _check(command("evaluate", "--model-dir", "link/../run"))


@pytest.mark.parametrize("flag", ["--model-dir", "--data-dir", "--cache"])
def test_a_folder_that_is_not_utf_8_is_one_line(flag, command):
    code, _, errors = command(flag, "run\udcff")
    assert code == 2 and "is not UTF-8, which TensorFlow needs; rename it" in errors and "Traceback" not in errors
