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
