"""tensorflow.contrib: found by every kind of import; what is absent says what took its place."""

import importlib
import importlib.util
import sys

import pytest

from estimator_train.compat.tf1 import contrib_modules
from estimator_train.compat.tf1.instead import INSTEAD


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    contrib_modules.install()
    yield
    for name in [name for name in sys.modules if name.startswith(("tensorflow.contrib", "tf_slim"))]:
        del sys.modules[name]


@pytest.fixture
def contrib():
    return importlib.import_module("tensorflow.contrib")


@pytest.mark.parametrize(
    "statement",
    [
        "from tensorflow.contrib.training import HParams as found",
        "from tensorflow.contrib import training; found = training.HParams",
        "import tensorflow.contrib.training as training; found = training.HParams",
        "from tensorflow.contrib.training.python.training import hparam; found = hparam.HParams",
        "from tensorflow.contrib.training.python.training.hparam import HParams as found",
        "import tensorflow.contrib as contrib; found = contrib.training.HParams",
    ],
)
def test_every_way_to_a_name_leads_to_ours(statement, monkeypatch):
    monkeypatch.setattr("tensorflow.contrib", sys.modules["tensorflow.contrib"], raising=False)
    scope = {}
    exec(statement, scope)
    assert scope["found"].__module__ == "estimator_train.compat.tf1.hparams"


def test_every_module_and_name_is_there(contrib):
    for module in dir(contrib):
        for name in dir(getattr(contrib, module)):
            assert getattr(getattr(contrib, module), name) is not None, f"{module}.{name}"


def test_slim_is_tf_slim_where_it_is_installed(contrib, tmp_path, monkeypatch):
    for file in ("__init__.py", "nets/__init__.py", "nets/vgg.py"):
        path = tmp_path / "tf_slim" / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"found = {file!r}")
    monkeypatch.syspath_prepend(tmp_path)
    assert contrib.slim.found == "__init__.py"
    for statement in (
        "from tensorflow.contrib.slim.nets import vgg",
        "from tensorflow.contrib.slim.python.slim.nets import vgg",
        "import tensorflow.contrib.slim.nets.vgg as vgg",
    ):
        scope = {}
        exec(statement, scope)
        assert scope["vgg"].found == "nets/vgg.py"


def test_what_took_a_names_place_stands_only_for_names_that_are_absent(contrib):
    for path in INSTEAD:
        module, _, name = path.rpartition(".")
        assert not module or module in dir(contrib), path
        assert name not in dir(getattr(contrib, module) if module else contrib), path


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        (
            "contrib",
            "slim",
            "module 'tensorflow.contrib' has no attribute 'slim': use the tf-slim package: pip install tf-slim",
        ),
        ("contrib", "lookups", "has no attribute 'lookups'; the closest name is 'lookup'"),
        ("contrib", "nothing", "has no attribute 'nothing': TensorFlow 2 has no contrib"),
        ("contrib.estimator", "RNNClassifier", "use tf.keras.estimator.model_to_estimator"),
        ("contrib.learn", "learn_runner", "use tf.estimator.train_and_evaluate"),
        ("contrib.cluster_resolver", "TPUClusterResolver", "use MirroredStrategy over GPUs; TPUs are not supported"),
        ("contrib.rnn", "GRUCel", "the closest name is 'GRUCell'"),
        ("contrib.learn.python.learn", "Experiment", "use tf.estimator.train_and_evaluate"),
    ],
)
def test_an_absent_name_says_in_one_line_what_to_use(path, name, message):
    module = importlib.import_module(f"tensorflow.{path}")
    with pytest.raises(AttributeError, match=message) as error:
        getattr(module, name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from tensorflow.contrib import slim", "use the tf-slim package"),
        ("import tensorflow.contrib.slim.nets", "use the tf-slim package"),
        ("from tensorflow.contrib.seq2seq import BeamSearchDecoder", "use tf.while_loop"),
        ("from tensorflow.contrib.rnn import ConvLSTMCell", "use tf.keras.layers.ConvLSTM2D"),
        ("from tensorflow.contrib.learn.python.learn import learn_runner", "use tf.estimator.train_and_evaluate"),
    ],
)
def test_an_absent_import_says_what_to_use(statement, message):
    with pytest.raises(ModuleNotFoundError, match=message):
        exec(statement)
