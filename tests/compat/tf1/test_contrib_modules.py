"""tensorflow.contrib: found by every kind of import; what is absent says what took its place."""

import sys

import pytest

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
