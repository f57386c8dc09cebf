"""Datasets, ways of training and the commands that follow: each combination gives a result."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

_WAYS = {
    "plain": "",
    "evaluations": "--evaluate-every 1 --keep-best --monitor accuracy:max",
    "replicas": "--replicas 2",
    "averages": "--ema 0.9 --class-weights balanced",
    "long steps": "--accumulate-steps 2 --steps-per-loop 2 --log csv",
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


_DATASETS = {"npz": _npz, "tfrecord": _tfrecord, "images": _images, "cats_vs_dogs": _images, "manifest": _manifest}


def _train(command, dataset, data_dir, model_dir, flags=""):
    sizes = "--model small_cnn --image-size 16x16 --batch-size 2 --max-steps 2 --save-checkpoints-steps 1"
    return command(
        "--dataset", dataset, "--data-dir", data_dir, "--model-dir", model_dir, *sizes.split(), *flags.split()
    )


def _check(outcome):
    code, output, errors = outcome
    assert code == 0, errors
    assert "Traceback" not in errors
    return output


@pytest.mark.slow
@pytest.mark.parametrize("dataset", _DATASETS)
def test_every_way_of_training_a_dataset_can_be_used(dataset, command, tmp_path):
    data_dir = _DATASETS[dataset](tmp_path)
    for way, flags in _WAYS.items():
        if dataset == "tfrecord":  # its files do not say how many examples a class has
            flags = flags.replace("--class-weights balanced", "")
        assert "evaluated" in _check(_train(command, dataset, data_dir, f"runs/{way}", flags))
    Image.fromarray(_pixels(1)).save(tmp_path / "one.png")
    assert "accuracy" in _check(command("evaluate", "--model-dir", "runs/plain", "--all"))
    assert "one.png" in _check(command("predict", "--model-dir", "runs/averages", "one.png"))
    assert "report.html" in _check(command("report", "--model-dir", "runs/evaluations"))
    assert "accuracy" in _check(command("compare", "runs/plain", "runs/replicas"))
    _check(command("export", "--model-dir", "runs/long steps", "--format", "saved_model", "--out", "exported"))


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
