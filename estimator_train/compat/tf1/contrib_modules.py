"""tensorflow.contrib: a module per file in compat/tf1/contrib, and helpful errors for all other names."""

import difflib
import importlib
import importlib.util
import operator
import pkgutil
import sys
import types

from estimator_train.compat.drop_in import old_paths
from estimator_train.compat.tf1 import contrib, private_tensorflow
from estimator_train.compat.tf1.contrib_files import PATHS
from estimator_train.compat.tf1.contrib_moved import MOVED
from estimator_train.compat.tf1.instead import INSTEAD

_ROOT = "tensorflow.contrib"
# Modules of tf.contrib that are packages of their own today.
_PACKAGES = {"gan": "tensorflow_gan", "keras": "tensorflow.keras", "slim": "tf_slim"}
_BELOW = _PACKAGES | {"gan": "tensorflow_gan.python"}
_FOLDERS = frozenset(["api", "keras", "python", "slim"])  # of these modules in tf.contrib, not of the packages
_SERVED = frozenset([*_PACKAGES, *(module.name for module in pkgutil.iter_modules(contrib.__path__))])
# One arg_scope holds for all of tf_slim.
_OF_SLIM = dict.fromkeys(["framework", "layers", "losses", "metrics", "slim", "training"], "tf_slim")
_TO_INSTALL = _OF_SLIM | {"gan": "tensorflow_gan"}


def install() -> None:
    """Lets Python find `tensorflow.contrib` and the modules below it."""
    old_paths.install(PROVIDERS)
    importlib.import_module(_ROOT)


class _Contrib(old_paths.Provider):
    def sources(self, path):
        source = source_of(path)
        return [source] if source else None

    def spec_of(self, path, parent_path):
        spec = super().spec_of(path, parent_path)
        if spec is None:
            # If `name` were set, Python would replace this error by one that does not suggest a replacement.
            parent, _, name = path.rpartition(".")
            raise ModuleNotFoundError(_why_absent(parent, name))
        return spec

    def create_module(self, spec):
        return _ContribModule(spec.name)

    def exec_module(self, module):
        """Puts a package in place of a module of tf.contrib, and its modules in place of those below it."""
        source = source_of(module.__name__)
        if source.startswith(contrib.__name__):
            return
        sys.modules[module.__name__] = importlib.import_module(source)
        if module.__name__.removeprefix(f"{_ROOT}.").partition(".")[0] in _OF_SLIM:
            importlib.import_module("estimator_train.compat.tf1.private_tf_slim")


PROVIDERS: dict[str, old_paths.Provider] = {_ROOT: _Contrib()}


def source_of(path: str) -> str | None:
    """Returns the path of the module whose names tensorflow.contrib or a module below it has, or None; imports nothing.

    >>> source_of("tensorflow.contrib.slim.nets")
    'tf_slim.nets'
    """
    if path == _ROOT:
        return contrib.__name__
    first, *below = path.removeprefix(f"{_ROOT}.").split(".")
    if not _is_served(first):
        return None
    if first in _PACKAGES:
        package = (_BELOW if below else _PACKAGES)[first]
        if [first, *below[:1]] == ["keras", "python"]:  # its files, which --tf1 finds in tf_keras
            package = private_tensorflow.KERAS
        return ".".join([package, *(part for part in below if part not in _FOLDERS)])
    # Scripts also import a module's files, such as tensorflow.contrib.tpu.python.tpu.tpu_estimator.
    is_file = path.removeprefix(f"{_ROOT}.") in PATHS
    return f"{contrib.__name__}.{first}" if is_file or not below else None


def names_below(path: str) -> list[str]:
    """Returns the parts of a path behind its `python`: any of them may be a module among the names of `source_of`.

    >>> names_below("tensorflow.contrib.learn.python.learn.datasets.base")
    ['learn', 'datasets', 'base']
    """
    return [name for name in path.partition(".python.")[2].split(".") if name]


def _is_served(module):
    return module in _SERVED and not _lacks_package(module)


def _lacks_package(module):
    return module in _TO_INSTALL and importlib.util.find_spec(_TO_INSTALL[module]) is None


def package_to_install(path: str) -> str | None:
    """Returns what pip has to install for a module or a name below tensorflow.contrib, or None."""
    first = path.removeprefix(f"{_ROOT}.").partition(".")[0]
    return _TO_INSTALL[first].replace("_", "-") if _lacks_package(first) else None


class _ContribModule(types.ModuleType):
    """tensorflow.contrib or a module below it; each name is looked up in this package when it is first read."""

    def __getattr__(self, name):
        if self.__name__ == _ROOT and _is_served(name):
            return importlib.import_module(f"{_ROOT}.{name}")
        if name.startswith("__") or name not in _names(self.__name__):
            raise AttributeError(_why_absent(self.__name__, name), name=name, obj=self)
        value = _value(_ours(self.__name__), name)
        setattr(self, name, value)
        return value

    def __dir__(self):
        return _names(self.__name__)


def _names(path):
    if path == _ROOT:
        return sorted(filter(_is_served, _SERVED))
    ours = _ours(path)
    own = [name for name in vars(ours) if not name.startswith("_") and name != "tf"]
    return sorted({*own, *MOVED.get(ours.__name__, ())})


def _ours(path):
    """Returns this package's module with the names of the module at `path`."""
    ours = importlib.import_module(source_of(path))
    for name in names_below(path):
        file = getattr(ours, name, None)
        ours = file if isinstance(file, types.ModuleType) else ours
    return ours


def _value(ours, name):
    """Returns what this package's module `ours` has by a name, or TensorFlow, if the name has moved there."""
    moved = MOVED.get(ours.__name__, {})
    if name not in moved:
        return getattr(ours, name)
    import tensorflow as tf

    return operator.attrgetter(moved[name])(tf.compat)


def _why_absent(module, name):
    message = f"module {module!r} has no attribute {name!r}"
    path = f"{module.partition('.python')[0]}.{name}".removeprefix(f"{_ROOT}.")
    if package := package_to_install(path):
        return f"{message}: {package.replace('-', '_')} is not installed: pip install {package}"
    if path in INSTEAD:
        return f"{message}: use {INSTEAD[path]}"
    is_known = module == _ROOT or path.partition(".")[0] in _SERVED
    nearest = difflib.get_close_matches(name, _names(module), n=1, cutoff=0.9) if is_known else None  # misspelled
    if nearest:
        return f"{message}; the closest name is {nearest[0]!r}"
    return f"{message}: TensorFlow 2 has no contrib, and estimator_train has only the parts that Estimator code used"
