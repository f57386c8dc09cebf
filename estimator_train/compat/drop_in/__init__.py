"""The drop-in: makes tf.estimator and the module paths of its old library resolve to this package."""

import difflib
import importlib
import importlib.util
import os
import pkgutil
import sys
import types

from estimator_train.compat.drop_in import moved, names, old_paths, private_tensorflow

_LEGACY_KERAS = "TF_USE_LEGACY_KERAS"


def install() -> None:
    """Makes the old names resolve to this package, so that code for tf.estimator runs unchanged.

    The names are `tf.estimator`, `tf.compat.v1.estimator`, `tf.keras.estimator` and `tensorflow_estimator`. TensorFlow
    is imported, with tf_keras as tf.keras if it was not imported before; if it was, with Keras 3, a warning lists what
    will not work. TensorFlow 2.15 and older has its own tf.estimator: there, the call only logs a warning. Calling it
    again does nothing.

        import estimator_train

        estimator_train.install()
        import tensorflow as tf

        config = tf.estimator.RunConfig("runs/a")
    """
    if old_paths.is_installed("tensorflow.estimator"):
        return
    with_keras_3 = "tensorflow" in sys.modules and os.environ.get(_LEGACY_KERAS) not in ("1", "true", "True")
    if "tensorflow" not in sys.modules:
        os.environ[_LEGACY_KERAS] = "1"
    import tensorflow as tf

    log = tf.get_logger()
    if hasattr(tf, "estimator"):
        log.warning("TensorFlow %s has its own tf.estimator; estimator_train does not replace it.", tf.__version__)
        return
    if with_keras_3:
        log.warning(
            "TensorFlow was imported before estimator_train and without %s=1, so tf.keras is Keras 3, and "
            "tf.keras.estimator and tf.compat.v1.layers are missing. Set the variable in the environment, or call "
            "estimator_train.install() before importing tensorflow.",
            _LEGACY_KERAS,
        )
    if importlib.util.find_spec("tensorflow_estimator"):
        # pip does not uninstall it when TensorFlow is upgraded past 2.15, and it cannot be imported there.
        log.warning(
            "estimator_train replaces the installed tensorflow_estimator, which is for TensorFlow 2.15 or older."
        )
    _take_over(tf)


def _take_over(tf):
    old_paths.install(PROVIDERS)
    moved.restore_names()
    tf.estimator = importlib.import_module("tensorflow.estimator")
    for version in ("v1", "v2"):
        estimator = importlib.import_module(f"tensorflow.compat.{version}.estimator")
        modules = [getattr(package, version) for package in (tf.compat, tf.compat.v1.compat, tf.compat.v2.compat)]
        for module in [*modules, private_tensorflow.unwrapped_compat_module(version)]:
            module.estimator = estimator
        # Else an import statement would execute TensorFlow's files again, as modules that have no estimator.
        for outer, package in (("v1", tf.compat.v1.compat), ("v2", tf.compat.v2.compat)):
            path = f"tensorflow.compat.{outer}.compat"
            sys.modules |= {path: package, f"{path}.{version}": getattr(package, version)}
            sys.modules[f"{path}.{version}.estimator"] = estimator


class _Named(old_paths.Provider):
    """Provides the modules in the table of names, which has a place for each name of theirs."""

    def sources(self, path):
        return [] if path in names.MODULES else None

    def create_module(self, spec):
        return _OldModule(spec.name)

    def exec_module(self, module):
        module.__all__ = [name for name in dir(module) if not name.startswith("_")]


# The providers of the modules at the drop-in's old paths.
PROVIDERS: dict[str, old_paths.Provider] = {
    **dict.fromkeys(names.MODULES, _Named()),
    **dict.fromkeys(moved.MODULES, moved.Moved()),
}


class _OldModule(types.ModuleType):
    """A module in the table; each name is looked up in this package when it is first read."""

    def __getattr__(self, name):
        path = f"{self.__name__}.{name}"
        if path in names.MODULES:
            return importlib.import_module(path)
        if name not in names.MODULES[self.__name__]:
            raise AttributeError(_why_absent(self, name))
        importlib.import_module("estimator_train.compat.drop_in.old_members")
        value = pkgutil.resolve_name(names.MODULES[self.__name__][name])
        setattr(self, name, value)
        return value

    def __dir__(self):
        below = f"{self.__name__}."
        modules = [path.removeprefix(below) for path in names.MODULES if path.startswith(below)]
        return sorted([*names.MODULES[self.__name__], *(name for name in modules if "." not in name)])


def _why_absent(module, name):
    message = f"module {module.__name__!r} has no attribute {name!r}"
    if name in names.INSTEAD:
        return f"{message}: use {names.INSTEAD[name]}"
    nearest = difflib.get_close_matches(name, dir(module), n=1, cutoff=0.9)
    return f"{message}; the closest name is {nearest[0]!r}" if nearest else message
