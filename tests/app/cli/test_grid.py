"""Datasets, ways of training and the commands that follow: each combination gives a result."""

import contextlib
import itertools
import json
import shutil
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from PIL import Image

from estimator_train.app.datasets import fashion_mnist
from estimator_train.app.datasets.tfds import TfdsSplit
from tests.test_docs import draw_oct2017

tfds = pytest.importorskip("tensorflow_datasets")

_WAYS = {
    "evaluations": "--evaluate-every 1 --keep-best --monitor accuracy:max --cache memory --augment flip --ema 0.9 "
    "--class-weights balanced --log csv",
    "replicas": "--replicas 2 --accumulate-steps 2 --steps-per-loop 2",
    "resumed": "",
}
_VERBS = {
    "evaluate": "--model-dir run --all",
    "predict": "--model-dir run one.png",
    "report": "--model-dir run",
    "export": "--model-dir run --format saved_model --out exported",
    "compare": "run other",
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


# Each way of training meets files, arrays or records, and all verbs. Every dataset is evaluated; the other verbs hardly
# depend on it. The campaign `python -m tests.fuzz command` draws from all combinations.
_CASES = [
    (dataset, way, ["evaluate", *verbs])
    for dataset, way, verbs in zip(
        _DATASETS, itertools.cycle(_WAYS), itertools.cycle([["predict", "report"], ["export", "compare"]])
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "way", "verbs"), _CASES)
def test_a_training_gives_a_run_for_every_command(dataset, way, verbs, command, tmp_path):
    Image.fromarray(_pixels(1)).save(tmp_path / "one.png")
    data_dir, flags = _DATASETS[dataset](tmp_path), _WAYS[way]
    with few_images():
        if dataset == "npz":
            code, _, errors = _train(command, dataset, data_dir, "run", flags)
            assert (code, errors.count("\n")) == (2, 1) and "--cache" in errors, errors
            flags = flags.replace("--cache memory", "")
        output = _check(_train(command, dataset, data_dir, "run", flags))
        if way == "resumed":
            output = _check(command("--model-dir", "run", "--resume", "--max-steps", 4))
        assert "evaluated" in output and ("the best checkpoint is kept" in output) == (way == "evaluations")
        _check_that_each_example_is_evaluated(tmp_path / "run")
        shutil.copytree(tmp_path / "run", tmp_path / "other")
        outputs = {verb: _check(command(verb, *_VERBS[verb].split())) for verb in verbs}
        assert all(outputs.values()) and "accuracy" in outputs.get("compare", "accuracy")


def _check_that_each_example_is_evaluated(run):
    """Also where examples are no files, in predictions.csv."""
    evaluation = json.loads((run / "evaluations.jsonl").read_text().splitlines()[-1])
    rows = (run / "predictions.csv").read_text().splitlines()[1:]
    assert len(rows) == evaluation["classification"]["examples"] > 0


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        pytest.param([_example(image=False)], "has no feature image/encoded", marks=pytest.mark.slow),
        pytest.param(
            [_example(label=[0, 1])], "one value of the right type as image/class/label", marks=pytest.mark.slow
        ),
        pytest.param(
            [_example(label=b"1")], "one value of the right type as image/class/label", marks=pytest.mark.slow
        ),
        ([], "have no records"),
    ],
    ids=["no image", "two labels", "bytes", "empty"],
)
def test_records_of_something_else_are_one_line(examples, message, command, tmp_path):
    code, _, errors = _train(command, "tfrecord", _tfrecord(tmp_path, examples), "run", "--quiet")
    assert code == 2 and message in errors and "Traceback" not in errors


@pytest.mark.slow
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
