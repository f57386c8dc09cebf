"""tensorflow.contrib: found by every kind of import; what is absent says what took its place."""

import importlib
import sys

import pytest
import tensorflow as tf

from estimator_train.compat.tf1 import contrib_files, private_tensorflow

pytestmark = pytest.mark.usefixtures("contrib")


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


def test_only_public_names_are_listed(contrib):
    assert "keras" in dir(contrib) and "losses" in dir(contrib)
    for module in ("framework", "layers", "losses", "metrics", "rnn", "training"):
        listed = set(dir(getattr(contrib, module)))
        assert not listed & {"tf", "six", "ops", "division", "absolute_import", "functools", "metric_ops"}, module
    assert "utils" in dir(contrib.layers) and "nest" in dir(contrib.framework)


@pytest.mark.parametrize(
    "statement",
    [
        "from tensorflow.contrib.keras.python.keras.layers import Dense as found",
        "from tensorflow.contrib.keras.api.keras import layers; found = layers.Dense",
        "from tensorflow.contrib.keras import layers; found = layers.Dense",
        "from tensorflow.contrib import keras; found = keras.layers.Dense",
        "from tensorflow.contrib.keras.python.keras.layers.core import Dense as found",
    ],
)
def test_keras_is_that_of_tensorflow(modules, statement):
    private_tensorflow.use_tf_keras()
    scope = {}
    exec(statement, scope)
    assert scope["found"] is tf.keras.layers.Dense


def test_a_file_of_keras_is_that_of_tf_keras(modules):
    private_tensorflow.use_tf_keras()
    from tensorflow.contrib.keras.python.keras.utils.data_utils import Sequence, get_file

    assert (get_file, Sequence) == (tf.keras.utils.get_file, tf.keras.utils.Sequence)


ABSENT = [
    "from tensorflow.contrib.learn.python.learn.estimators.constants import ProblemType",
    "from tensorflow.contrib.learn.python.learn.estimators.rnn_common import select_last_activations",
    "from tensorflow.contrib.tpu.python.tpu.tpu_estimator import BatchConfig",
    "from tensorflow.contrib.learn.python.learn import nothing",
    "from tensorflow.contrib.rnn.python.ops.rnn_cell import _Linear",
    "import tensorflow.contrib.learn.python.nothing",
    "import tensorflow.contrib.layers.python.layers.layers.fully_connected",
]


@pytest.mark.parametrize("statement", ABSENT)
def test_an_import_of_an_absent_name_of_a_file_is_an_import_error(statement):
    """Programs catch it, and go on without the name; also when the file has been imported before."""
    for _ in range(2):
        with pytest.raises(ImportError, match="has no attribute"):
            exec(statement, {})


def test_every_file_of_a_supported_module_can_be_imported():
    for path in contrib_files.PATHS:
        importlib.import_module(f"tensorflow.contrib.{path}")


def test_a_file_of_a_module_has_its_own_names(contrib):
    from tensorflow.contrib.layers.python.layers.utils import collect_named_outputs

    assert collect_named_outputs is contrib.layers.utils.collect_named_outputs
    assert not hasattr(contrib.layers, "collect_named_outputs")


def test_gan_is_the_package_tensorflow_gan(contrib, monkeypatch, tmp_path):
    message = "has no attribute 'gan': tensorflow_gan is not installed: pip install tensorflow-gan"
    monkeypatch.setitem(sys.modules, "tensorflow_gan", None)  # as if it were not installed
    with pytest.raises(AttributeError, match=message):
        _ = contrib.gan
    monkeypatch.delitem(sys.modules, "tensorflow_gan")
    losses = tmp_path / "tensorflow_gan" / "python" / "losses"  # as in tensorflow-gan 2.1.0
    losses.mkdir(parents=True)
    (losses.parent.parent / "__init__.py").write_text("gan_train = 1\n")
    (losses / "losses_impl.py").write_text("wasserstein_generator_loss = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    from tensorflow.contrib.gan.python.losses.python import losses_impl

    assert contrib.gan.gan_train == 1 and losses_impl.wasserstein_generator_loss == 2
    for name in [name for name in sys.modules if name.startswith("tensorflow_gan")]:
        del sys.modules[name]


def test_slim_and_the_modules_below_it_are_tf_slims(contrib):
    assert contrib.slim is sys.modules["tf_slim"]
    for statement in (
        "from tensorflow.contrib.slim.nets import vgg",
        "from tensorflow.contrib.slim.python.slim.nets import vgg",
        "import tensorflow.contrib.slim.nets.vgg as vgg",
    ):
        scope = {}
        exec(statement, scope)
        assert scope["vgg"] is sys.modules["tf_slim.nets.vgg"]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("contrib.slim", AttributeError),
        ("contrib.layers.fully_connected", AttributeError),
        ("from tensorflow.contrib import slim", ModuleNotFoundError),
        ("import tensorflow.contrib.slim.nets", ModuleNotFoundError),
        ("from tensorflow.contrib.framework.python.ops import arg_scope", ModuleNotFoundError),
        ("from tensorflow.contrib.training import HParams", ModuleNotFoundError),
    ],
)
def test_a_module_of_tf_slim_says_how_to_install_it(contrib, monkeypatch, statement, error):
    monkeypatch.setitem(sys.modules, "tf_slim", None)  # as if it were not installed
    with pytest.raises(error, match="has no attribute '(.+)': tf_slim is not installed: pip install tf-slim") as raised:
        exec(statement, {"contrib": contrib})
    assert "\n" not in str(raised.value)
    assert "slim" not in dir(contrib) and "rnn" in dir(contrib)
