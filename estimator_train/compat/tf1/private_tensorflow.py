"""Modules below tensorflow.python that TensorFlow 1 filled with what is elsewhere today."""

import importlib
import importlib.util
import os
import sys

from estimator_train._engine.libraries import private_names_of
from estimator_train.compat.drop_in import old_paths

KERAS = "tensorflow.python.keras"
# TensorFlow 1 imported its tf.keras from here. The public names come last, because optimizers differ in tf_keras.src.
_ITS_NAMES_TODAY = ("tf_keras.src", "tensorflow.keras")


@private_names_of("tensorflow")
def use_data_of_tf1() -> None:
    """Gives tensorflow.python.data the classes of TensorFlow 1; tf.data and the modules below have them already."""
    import tensorflow as tf

    module = importlib.import_module("tensorflow.python.data")
    public = {name: value for name, value in vars(tf.compat.v1.data).items() if not name.startswith("_")}
    vars(module).update(public)


@private_names_of("tensorflow")
def use_tf_keras() -> None:
    """Makes tensorflow.python.keras tf_keras, as far as that has the modules; the others stay TensorFlow's own.

    `tensorflow.keras` must already be that of TensorFlow 1.
    """
    old_paths.install(PROVIDERS)
    for path in [path for path in list(sys.modules) if _today(path)]:
        del sys.modules[path]  # TensorFlow keeps those that it uses
    importlib.import_module(KERAS)


def _today(path):
    return list(filter(_exists, sources_of(path)))


@private_names_of("tensorflow")
def sources_of(path: str) -> list[str]:
    """Returns the paths where modules may have the names of the module at `path`, if it is one of Keras; no import.

    >>> sources_of("tensorflow.python.keras.layers")
    ['tf_keras.src.layers', 'tensorflow.keras.layers']
    """
    if path != KERAS and not path.startswith(f"{KERAS}."):
        return []
    below = path.removeprefix(KERAS).removeprefix("._impl").removeprefix(".keras")  # TensorFlow 1.4 to 1.8
    return [root + below for root in _ITS_NAMES_TODAY]


def _exists(path):
    try:
        return importlib.util.find_spec(path) is not None
    except ModuleNotFoundError:  # its parent does not exist
        return False


class _Keras(old_paths.Provider):
    def sources(self, path):
        return sources_of(path) or None

    def spec_of(self, path, parent_path):
        if not _today(path):
            return None
        spec = super().spec_of(path, parent_path)
        below = path.removeprefix("tensorflow.python.").split(".")
        spec.submodule_search_locations = [os.path.join(*sys.modules["tensorflow.python"].__path__, *below)]
        return spec

    def exec_module(self, module):
        old_paths.fill(module, _today(module.__name__))


PROVIDERS: dict[str, old_paths.Provider] = {KERAS: _Keras()}
