"""tensorflow.contrib: a module per file in compat/tf1/contrib, and helpful errors for all other names."""

from __future__ import annotations

import difflib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys
import types

from estimator_train.compat.tf1 import contrib
from estimator_train.compat.tf1.instead import INSTEAD

_ROOT = "tensorflow.contrib"
_SERVED = frozenset(["slim", *(module.name for module in pkgutil.iter_modules(contrib.__path__))])
_OF_SLIM = frozenset(["framework", "layers", "metrics", "slim", "training"])  # one arg_scope holds for all of them


def install() -> None:
    """Lets Python find `tensorflow.contrib` and the modules below it."""
    sys.meta_path.insert(0, _Finder())
    importlib.import_module(_ROOT)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path, target=None):
        if fullname != _ROOT and not fullname.startswith(f"{_ROOT}."):
            return None
        if source := source_of(fullname):
            loader = _Slim() if source.startswith("tf_slim") else self
            return importlib.machinery.ModuleSpec(fullname, loader, is_package=True)
        # If `name` were set, Python would replace this error by one that does not suggest a replacement.
        parent, _, name = fullname.rpartition(".")
        raise ModuleNotFoundError(_why_absent(parent, name))

    def create_module(self, spec):
        return _ContribModule(spec.name)

    def exec_module(self, module):
        pass


class _Slim(importlib.abc.Loader):
    """Loads a module of tf_slim in place of one of contrib.slim, or of its files below contrib.slim.python.slim."""

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        sys.modules[module.__name__] = importlib.import_module(source_of(module.__name__))
        importlib.import_module("estimator_train.compat.tf1.private_tf_slim")


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
    if first == "slim":
        for folder in ("python", "slim"):
            below = below[1:] if below[:1] == [folder] else below
        return ".".join(["tf_slim", *below])
    # Scripts also import a module's files, such as tensorflow.contrib.tpu.python.tpu.tpu_estimator.
    is_file = below[:1] == ["python"] and f"{first}.{below[-1]}" not in INSTEAD
    return f"{contrib.__name__}.{first}" if is_file or not below else None


def _is_served(module):
    return module in _SERVED and not _lacks_slim(module)


def _lacks_slim(module):
    return module in _OF_SLIM and importlib.util.find_spec("tf_slim") is None


class _ContribModule(types.ModuleType):
    """tensorflow.contrib or a module below it; each name is looked up in this package when it is first read."""

    def __getattr__(self, name):
        if self.__name__ == _ROOT and _is_served(name):
            return importlib.import_module(f"{_ROOT}.{name}")
        if name.startswith("__") or name not in _names(self.__name__):
            raise AttributeError(_why_absent(self.__name__, name), name=name, obj=self)
        value = getattr(_ours(self.__name__), name)
        setattr(self, name, value)
        return value

    def __dir__(self):
        return _names(self.__name__)


def _names(path):
    """Returns the sorted names of the module at `path`."""
    if path == _ROOT:
        return sorted(filter(_is_served, _SERVED))
    return sorted(name for name in vars(_ours(path)) if not name.startswith("_"))


def _ours(path):
    """Returns this package's module with the names of the module at `path`."""
    return importlib.import_module(source_of(path))


def _why_absent(module, name):
    message = f"module {module!r} has no attribute {name!r}"
    path = f"{module.partition('.python')[0]}.{name}".removeprefix(f"{_ROOT}.")
    first = path.partition(".")[0]
    if _lacks_slim(first):
        return f"{message}: tf_slim is not installed: pip install tf-slim"
    if path in INSTEAD:
        return f"{message}: use {INSTEAD[path]}"
    is_known = module == _ROOT or first in _SERVED
    nearest = difflib.get_close_matches(name, _names(module), n=1) if is_known else None
    if nearest:
        return f"{message}; the closest name is {nearest[0]!r}"
    return f"{message}: TensorFlow 2 has no contrib, and estimator_train has only the parts that Estimator code used"
