"""The import, the public names, and what a package index shows."""

import inspect
import os
import pickle
import platform
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import setuptools
import tensorflow as tf
import tf_keras as keras
import yaml

import estimator_train as et
from estimator_train import distribution, export

ROOT = Path(__file__).parent.parent


@pytest.mark.smoke
def test_every_public_name_is_there():
    for name in et.__all__:
        assert getattr(et, name) is not None
    with pytest.raises(AttributeError, match="Estimater"):
        _ = et.Estimater


@pytest.mark.parametrize("face", [et, export, distribution])
def test_public_names_say_where_users_find_them(face):
    values = [getattr(face, name) for name in face.__all__]
    named = [value for value in values if not inspect.ismodule(value)]
    assert named and not [value for value in named if "._" in value.__module__ and "estimator" in value.__module__]
    assert all(pickle.loads(pickle.dumps(value)) is value for value in named)


def test_configs_and_specs_can_be_pickled():
    config = et.RunConfig("runs/mine", save_checkpoints_steps=5, session_config=tf.compat.v1.ConfigProto())
    assert repr(pickle.loads(pickle.dumps(config))) == repr(config)
    spec = et.EstimatorSpec(et.ModeKeys.EVAL, loss=tf.constant(2.0))
    assert pickle.loads(pickle.dumps(spec)).loss.numpy() == 2
    assert str(type(spec)) == "<class 'estimator_train.EstimatorSpec'>"


@pytest.mark.parametrize(
    "name",
    [
        "CheckpointSaverHook", "CheckpointSaverListener", "FeedFnHook", "FinalOpsHook", "GlobalStepWaiterHook",
        "LoggingTensorHook", "NanLossDuringTrainingError", "NanTensorHook", "SecondOrStepTimer",
        "SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues", "StepCounterHook",
        "StopAtStepHook", "SummarySaverHook",
    ],
)  # fmt: skip
def test_stock_hooks_are_tensorflows_own(name):
    assert getattr(et, name) is getattr(tf.compat.v1.train, name)


IS_X86 = platform.machine() in ("x86_64", "AMD64")  # oneDNN's kernels are those of x86


@pytest.mark.smoke
def test_import_is_lazy_selects_legacy_keras_and_turns_on_onednn():
    program = (
        "import sys, estimator_train; assert 'tensorflow' not in sys.modules\n"
        "import tensorflow as tf; assert tf.keras.__name__.startswith('tf_keras'), tf.keras.__name__\n"
        "[getattr(estimator_train, name) for name in dir(estimator_train)]\n"
        "slow = {'jinja2', 'kaggle', 'matplotlib', 'pandas', 'scipy', 'sklearn', 'tensorflow_datasets'}\n"
        "assert slow.isdisjoint(sys.modules), slow.intersection(sys.modules)\n"
        "from tensorflow.python.util import _pywrap_util_port\n"
        f"assert _pywrap_util_port.IsMklEnabled() or not {IS_X86}"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=_environment_as_it_comes())


@pytest.mark.skipif(not IS_X86, reason="oneDNN's kernels are those of x86")
@pytest.mark.parametrize(
    "gpus, given, onednn",
    [
        (1, {}, "0"),
        (2, {"CUDA_VISIBLE_DEVICES": "1,0"}, "0"),
        (1, {"CUDA_VISIBLE_DEVICES": ""}, "1"),
        (1, {"CUDA_VISIBLE_DEVICES": "-1"}, "1"),
        (1, {"TF_ENABLE_ONEDNN_OPTS": "1"}, "1"),
        (0, {"TF_ENABLE_ONEDNN_OPTS": "0"}, "0"),
    ],
)
def test_import_turns_off_onednn_beside_a_gpu_unless_it_is_set(gpus, given, onednn):
    program = (
        "import glob, os, sys\n"
        f"glob.glob = lambda pattern: ['/dev/nvidia0', '/dev/nvidia1'][:{gpus}] * pattern.startswith('/dev/nvidia')\n"
        "import estimator_train; assert 'tensorflow' not in sys.modules\n"
        "print(os.environ['TF_ENABLE_ONEDNN_OPTS'])"
    )
    environment = _environment_as_it_comes() | {"CUDA_VISIBLE_DEVICES": "0"} | given
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout
    assert printed.strip() == onednn


@pytest.mark.gpu
def test_a_gpu_evaluates_and_predicts_layer_normalization(tmp_path):
    def batches():
        return tf.data.Dataset.from_tensors((tf.ones([4, 6]), tf.ones([4, 5])))

    model = keras.Sequential([keras.layers.Dense(5, input_shape=(6,)), keras.layers.LayerNormalization()])
    model.compile("adam", "mse")
    estimator = et.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(batches)
    assert estimator.evaluate(batches)["global_step"] == 1
    assert len(list(estimator.predict(batches))) == 4


@pytest.mark.slow
def test_import_after_tensorflow_does_not_break_it():
    program = "import tensorflow as tf, estimator_train; tf.keras.Sequential(); estimator_train.RunConfig()"
    subprocess.run([sys.executable, "-c", program], check=True, env=_environment_as_it_comes())


@pytest.mark.skipif((ROOT / "PKG-INFO").exists(), reason="an sdist leaves links out")
def test_the_doors_at_the_root_lead_into_the_package():
    assert (ROOT / "hooks").resolve() == ROOT / "estimator_train" / "hooks"
    assert (ROOT / "input_fns").resolve() == ROOT / "estimator_train" / "input_fns"


def test_every_document_has_the_same_version_and_description(monkeypatch):
    shown = {}
    monkeypatch.setattr(setuptools, "setup", shown.update)
    runpy.run_path(str(ROOT / "setup.py"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    changelog = (ROOT / "CHANGELOG.md").read_text()
    released = re.findall(r"^## ([\d.]+) \((.+)\)$", changelog, re.MULTILINE)[0]
    assert released == (et.__version__, str(citation["date-released"]))
    assert shown["version"] == citation["version"] == et.__version__

    lowest, above = re.search(r"tensorflow>=2\.(\d+),<2\.(\d+)", str(shown["install_requires"])).groups()
    assert shown["description"] == f"tf.estimator's API on TensorFlow 2.{lowest} to 2.{int(above) - 1}"
    assert citation["abstract"].startswith(shown["description"])
    assert f"site_description: {shown['description']}\n" in (ROOT / "mkdocs.yml").read_text()
    minors = [int(name.rpartition(".")[2]) for name in shown["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]
    assert shown["python_requires"] == f">=3.{minors[0]}"
    assert f"on Python 3.{minors[0]} to 3.{minors[-1]}, on Linux" in (ROOT / "docs" / "compatibility.md").read_text()


def _environment_as_it_comes():
    """Without what the package sets for TensorFlow."""
    ours = ("TF_USE_LEGACY_KERAS", "TF_ENABLE_ONEDNN_OPTS")
    return {name: value for name, value in os.environ.items() if name not in ours} | {"PYTHONPATH": str(ROOT)}
