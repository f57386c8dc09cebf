"""Replacements for names that Python, NumPy and TensorFlow have removed since the packages were written.

None of them concern Estimators. Each function returns whether the shim was needed, and docs/clients.md prints the first
line of its docstring.
"""

import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import types
from pathlib import Path


def numpy_quantile():
    """`numpy.quantile(interpolation=)`, called `method` since NumPy 1.22."""
    import numpy as np

    if "interpolation" in inspect.signature(np.quantile).parameters:
        return False
    quantile = np.quantile
    np.quantile = lambda a, q, interpolation="linear", **options: quantile(a, q, method=interpolation, **options)
    return True


def getargspec():
    """`inspect.getargspec`, which Python 3.11 removed."""
    if hasattr(inspect, "getargspec"):
        return False
    inspect.getargspec = lambda function: types.SimpleNamespace(
        **dict(zip(("args", "varargs", "keywords", "defaults"), inspect.getfullargspec(function), strict=False))
    )
    return True


def distutils_version():
    """`distutils.version.LooseVersion`, which Python 3.12 removed."""
    if importlib.util.find_spec("distutils"):
        return False
    from packaging.version import Version

    _module("distutils", package=True)
    _module("distutils.version", LooseVersion=Version)
    return True


def training_tracking():
    """`tensorflow.python.training.tracking.graph_view`, today `tensorflow.python.checkpoint.graph_view`."""
    if importlib.util.find_spec("tensorflow.python.training.tracking"):
        return False
    graph_view = importlib.import_module("tensorflow.python.checkpoint.graph_view")
    _module("tensorflow.python.training.tracking", package=True, graph_view=graph_view)
    sys.modules["tensorflow.python.training.tracking.graph_view"] = graph_view
    return True


def tensorflow_1():
    """`tensorflow.contrib`, and TensorFlow 1's names in `tensorflow`: on 2.15, estimator_train's own stand in."""
    if "tensorflow.contrib" in sys.modules:
        return False
    from estimator_train.compat.tf1 import contrib_modules, merged_tensorflow, tensorflow_2

    tensorflow_2.keep_for(["estimator_train", "keras", "tensorflow_estimator"])
    contrib_modules.install()
    merged_tensorflow.install()
    return True


def no_requests():
    """`requests` as an empty module: deepctr asks PyPI for its newest version when it is imported."""
    _module("requests")
    return True


def no_probability_and_hub():
    """`tensorflow_probability` and `tensorflow_hub` as empty modules: only TF-GAN's image scores use them."""
    for name in ("tensorflow_probability", "tensorflow_hub"):
        _module(name, package=True, __version__="1.0", __getattr__=_nothing)
    return True


def privacy_without_init():
    """`tensorflow_privacy` past its `__init__`, which imports parts that need TensorFlow Probability and tf-models."""
    root = Path(importlib.util.find_spec("tensorflow_privacy").submodule_search_locations[0])
    for name in ("", ".privacy", ".privacy.estimators", ".privacy.estimators.v1", ".privacy.optimizers"):
        _module(f"tensorflow_privacy{name}", package=True).__path__ = [str(root.joinpath(*name.split(".")))]
    return True


def _module(name, package=False, **names):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=package)
    if package:
        module.__path__ = []
    vars(module).update(names)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    return module


def _nothing(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return types.SimpleNamespace()
