"""The drop-in: tf.estimator and the old module paths lead to estimator_train."""

import importlib.util
import os
import subprocess
import sys
import types

import pytest
import tensorflow as tf
import tf_keras as keras

import estimator_train as et
from estimator_train import estimator_v1
from estimator_train.compat.drop_in import keras_lib, names, old_paths


@pytest.fixture(autouse=True)
def installed():
    et.install()


@pytest.fixture
def uninstalled(monkeypatch):
    """Restores the state before `install` until the test ends."""
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if finder is not old_paths._FINDER])
    for name in names.MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr(tf, "estimator")
    monkeypatch.delattr(tf.compat.v1, "estimator")


@pytest.mark.smoke
@pytest.mark.parametrize(
    "statement",
    [
        "import tensorflow as tf; found = tf.estimator.Estimator",
        "import tensorflow.estimator as estimator; found = estimator.Estimator",
        "from tensorflow import estimator; found = estimator.Estimator",
        "from tensorflow.estimator import Estimator as found",
        "from tensorflow.estimator import *; found = Estimator",
        "import tensorflow as tf; found = tf.compat.v2.estimator.Estimator",
        "import tensorflow.compat.v2 as tf; found = tf.estimator.Estimator",
        "from tensorflow_estimator.python.estimator.api._v2 import estimator; found = estimator.Estimator",
        "from tensorflow_estimator.python.estimator.estimator import EstimatorV2 as found",
    ],
)
def test_every_way_to_the_v2_namespace_leads_to_estimator_train(statement):
    assert _found(statement) is et.Estimator


@pytest.mark.smoke
@pytest.mark.parametrize(
    "statement",
    [
        "import tensorflow as tf; found = tf.compat.v1.estimator.Estimator",
        "import tensorflow.compat.v1 as tf; found = tf.estimator.Estimator",
        "import tensorflow.compat.v1 as tf; found = tf.compat.v1.estimator.Estimator",
        "import tensorflow._api.v2.compat.v1 as tf; found = tf.estimator.Estimator",
        "from tensorflow.compat.v2.compat.v1 import estimator; found = estimator.Estimator",
        "import tensorflow.compat.v1.compat.v1.estimator as estimator; found = estimator.Estimator",
        "from tensorflow.compat.v1 import estimator; found = estimator.Estimator",
        "from tensorflow.compat.v1.estimator import Estimator as found",
        "from tensorflow_estimator import estimator; found = estimator.Estimator",
        "import tensorflow_estimator; found = tensorflow_estimator.python.estimator.estimator.Estimator",
        "from tensorflow_estimator.python.estimator import estimator; found = estimator.Estimator",
        "from tensorflow_estimator.python.estimator import estimator_lib; found = estimator_lib.Estimator",
        "from tensorflow.python.estimator.estimator import Estimator as found",
    ],
)
def test_every_way_to_the_v1_namespace_leads_to_the_v1_estimator(statement):
    assert _found(statement) is estimator_v1.Estimator


@pytest.mark.parametrize(
    ("statement", "ours"),
    [
        ("import tensorflow as tf; found = tf.estimator.export.PredictOutput", "estimator_train.export.PredictOutput"),
        ("from tensorflow.estimator.export import ServingInputReceiver as found",
         "estimator_train.export.ServingInputReceiver"),
        ("from tensorflow_estimator.python.estimator import model_fn; found = model_fn.ModeKeys",
         "estimator_train.ModeKeys"),
        ("from tensorflow_estimator.python.estimator.export import export_lib; found = export_lib.PredictOutput",
         "estimator_train.export.PredictOutput"),
        ("from tensorflow_estimator.python.estimator import estimator_lib as e; found = e.export.PredictOutput",
         "estimator_train.export.PredictOutput"),
        ("from tensorflow_estimator.python.estimator import util; found = util.fn_args",
         "estimator_train.compat.drop_in.private_tensorflow.fn_args"),
    ],
)  # fmt: skip
def test_old_names_in_modules_below(statement, ours):
    module, _, name = ours.rpartition(".")
    assert _found(statement) is getattr(importlib.import_module(module), name)


def test_installing_twice_changes_nothing():
    before = list(sys.meta_path), tf.estimator, tf.compat.v1.estimator
    et.install()
    assert before == (list(sys.meta_path), tf.estimator, tf.compat.v1.estimator)


def test_a_tf_estimator_of_tensorflows_own_is_left_alone(uninstalled, monkeypatch, log_lines):
    real = types.SimpleNamespace()
    monkeypatch.setattr(tf, "estimator", real, raising=False)
    et.install()
    assert tf.estimator is real and not hasattr(tf.compat.v1, "estimator")
    assert "has its own tf.estimator" in "".join(log_lines)


def test_a_tensorflow_estimator_left_behind_by_pip_is_replaced(uninstalled, monkeypatch, tmp_path, log_lines):
    (tmp_path / "tensorflow_estimator").mkdir()
    (tmp_path / "tensorflow_estimator" / "__init__.py").write_text("raise ImportError('of TensorFlow 2.15')")
    monkeypatch.syspath_prepend(tmp_path)
    et.install()
    assert "replaces the installed tensorflow_estimator" in "".join(log_lines)
    assert _found("from tensorflow_estimator import estimator; found = estimator.Estimator") is estimator_v1.Estimator


def test_tensorflow_loaded_with_keras_3_is_warned_of(uninstalled, monkeypatch, log_lines):
    monkeypatch.delenv("TF_USE_LEGACY_KERAS")
    et.install()
    (line,) = [line for line in log_lines if "Keras 3" in line]
    assert "tf.compat.v1.layers" in line and "TF_USE_LEGACY_KERAS=1" in line
    assert tf.estimator.Estimator is et.Estimator


@pytest.mark.slow
def test_importing_install_installs_without_old_modules_and_can_be_called():
    program = """
import os, sys
import estimator_train.install
of_the_drop_in = {name for name in sys.modules if name.startswith("estimator_train.compat.drop_in.")}
light = ("input_checkpoints", "moved", "names", "old_paths", "private_tensorflow")
light = {f"estimator_train.compat.drop_in.{name}" for name in light}
assert of_the_drop_in == light, of_the_drop_in
assert not [name for name in sys.modules if name.startswith(("estimator_train.compat.tf1", "tensorflow.contrib"))]
import tensorflow as tf
assert os.environ["TF_USE_LEGACY_KERAS"] == "1" and tf.keras.__name__.startswith("tf_keras"), tf.keras
import estimator_train
assert tf.estimator.Estimator is estimator_train.Estimator
estimator_train.install()
from estimator_train import install
install()
assert estimator_train.compat.drop_in.install is install
"""
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_v1_estimator_counts_every_estimator_as_its_own():
    class Own(estimator_v1.Estimator):
        pass

    assert issubclass(et.Estimator, estimator_v1.Estimator)
    assert issubclass(Own, estimator_v1.Estimator) and issubclass(Own, et.Estimator)
    assert not issubclass(et.Estimator, Own) and not issubclass(int, estimator_v1.Estimator)


def test_export_savedmodel_is_v1s_only(monkeypatch, tmp_path, classifier):
    estimator = tf.compat.v1.keras.estimator.model_to_estimator(classifier(), model_dir=tmp_path)
    asked = []
    monkeypatch.setattr(et.Estimator, "export_saved_model", lambda self, *arguments: asked.append(arguments))
    estimator.export_savedmodel("exports", len, strip_default_attrs=True)
    assert asked == [("exports", len, None, False, None)]
    with pytest.raises(AttributeError, match="export_saved_model"):
        _ = tf.keras.estimator.model_to_estimator(classifier(), model_dir=tmp_path / "v2").export_savedmodel


@pytest.mark.parametrize(
    ("convert", "kind"),
    [
        pytest.param(lambda: tf.keras.estimator.model_to_estimator, et.Estimator, marks=pytest.mark.slow),
        pytest.param(lambda: keras.estimator.model_to_estimator, et.Estimator, marks=pytest.mark.slow),
        (lambda: tf.compat.v1.keras.estimator.model_to_estimator, estimator_v1.Estimator),
        pytest.param(lambda: keras_lib.model_to_estimator, estimator_v1.Estimator, marks=pytest.mark.slow),
    ],
)
def test_keras_model_to_estimator_makes_our_estimators(convert, kind, classifier, data, batches, tmp_path):
    estimator = convert()(classifier(), model_dir=str(tmp_path), config=tf.estimator.RunConfig(tf_random_seed=1))
    assert type(estimator) is kind and estimator.model_dir == str(tmp_path)
    assert estimator.train(batches(data, 32), steps=2).get_variable_value("global_step") == 2


def test_gc_keeps_the_newest_exports(tmp_path):
    from tensorflow_estimator.python.estimator import gc

    for version in ("7", "30", "100", "temp-9"):
        (tmp_path / version).mkdir()

    def parse(path):
        version = os.path.basename(path.path)
        return path._replace(export_version=int(version)) if version.isdigit() else None

    paths = gc._get_paths(str(tmp_path), parser=parse)
    newest = gc._largest_export_versions(2)
    assert sorted(path.export_version for path in newest(paths)) == [30, 100]
    assert [path.path for path in gc._negation(newest)(paths)] == [str(tmp_path / "7")]


def _found(statement):
    scope = {}
    exec(statement, scope)
    return scope["found"]
