"""The next training removes what a killed run left behind, and nothing else."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train._engine.exports import directories
from estimator_train._engine.host import files, leftovers

HEX = "0123456789abcdef" * 2

LEFT = [
    "model.ckpt-7_temp/part-00000-of-00001.data-00000-of-00001",
    "model.ckpt-7_temp/part-00000-of-00001.index.tempstate1234",
    f"model.ckpt-8_temp_{HEX}/part-00001-of-00002.index",
    "model.ckpt-9.data-00000-of-00001",
    "model.ckpt-9.index.tempstate99",
    f"graph.pbtxt.tmp{HEX}",
    f"checkpoint.tmp{HEX}",
    f"model.ckpt-9.meta.tmp{HEX}",
    ".run.json.GONE.part",
    "report/.report.html.GONE.part",
    "export/best/temp-1700000000-GONE/saved_model.pb",
    "export/best/.eval_result.json.GONE.part",
]
KEPT = [
    "model.ckpt-5.index",
    "model.ckpt-5.data-00000-of-00001",
    "model.ckpt-6_temp/notes.txt",
    "my.data-00000-of-00001",
    "graph.pbtxt.tmp",
    "run.json.part",
    "notes.part",
    "temp-17/notes.txt",
    "export/best/1700000000/saved_model.pb",
    "export/best/temp-mine/notes.txt",
    "export/best/temp-1700000000-elsewhere-1/saved_model.pb",
    "export/best/temp-1700000001/saved_model.pb",
    "export/best/temp-1700000000-LIVE/saved_model.pb",
    ".run.json.LIVE.part",
    "mine/model.ckpt-9.data-00000-of-00001",
]


@pytest.fixture
def folder(tmp_path):
    """A model_dir with all of these; LIVE is this process's parent, and GONE has ended."""
    host, _, _ = files.this_process().rpartition("-")
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    names = {"GONE": f"{host}-{ended.pid}", "LIVE": f"{host}-{os.getppid()}"}

    def path_of(name):
        for word, process in names.items():
            name = name.replace(word, process)
        return tmp_path / "run" / name

    for name in (*LEFT, *KEPT):
        path_of(name).parent.mkdir(parents=True, exist_ok=True)
        path_of(name).write_text("half")
    return path_of


def test_what_a_killed_run_left_is_removed_and_nothing_else(folder, tmp_path, log_lines):
    leftovers.remove(str(tmp_path / "run"))
    assert not [name for name in LEFT if folder(name).exists()]
    assert not [name for name in LEFT if "/" in name and folder(name).parent.name.startswith(("model", "temp"))
                and folder(name).parent.exists()]  # fmt: skip
    assert not [name for name in KEPT if not folder(name).exists()]
    (line,) = log_lines
    assert line.startswith("Removed leftovers of an interrupted run from") and "model.ckpt-7_temp" in line


def test_the_next_training_removes_it_and_an_evaluation_does_not(tmp_path):
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    orphan = tmp_path / "model.ckpt-9.data-00000-of-00001"
    orphan.write_text("half")

    def input_fn():
        return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1])))

    estimator.evaluate(input_fn)
    assert orphan.exists()
    estimator.train(input_fn)
    assert not orphan.exists()
    assert sorted(path.name for path in tmp_path.glob("*temp*")) == []
    orphan.write_text("half")
    estimator.train(input_fn, max_steps=1)  # which has been trained already
    assert not orphan.exists()


def test_a_link_is_removed_but_not_what_it_leads_to(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "precious").touch()
    os.utime(tmp_path / "target", (1, 1))
    (tmp_path / "run" / "export" / "best").mkdir(parents=True)
    link = tmp_path / "run" / "export" / "best" / "temp-1500000000"
    link.symlink_to(tmp_path / "target")
    leftovers.remove(str(tmp_path / "run"))
    assert not link.is_symlink() and (tmp_path / "target" / "precious").exists()
    link.with_name("1500000000").symlink_to(tmp_path / "target")
    directories.remove_export(str(link.with_name("1500000000")))
    assert os.listdir(link.parent) == [] and (tmp_path / "target" / "precious").exists()
