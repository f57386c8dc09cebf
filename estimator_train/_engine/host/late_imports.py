"""Keeps pandas and SciPy from being imported with tf_keras before it uses them.

tf_keras, and the older Keras inside TensorFlow, import both wherever they are installed, which takes up to a second.
They need them only for DataFrames given to `fit` and for `ImageDataGenerator`. Import statements of other code are not
affected.
"""

import builtins
import importlib.machinery
import importlib.util
import pkgutil
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

_LATE = ("pandas", "scipy")
_IMPORTERS = ("data_adapter", "image", "training_arrays_v1", "training_v1")  # modules of both that import them


def install() -> None:
    """Installs the hook for modules of tf_keras that are imported from now on. A second call does nothing."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if name not in _IMPORTERS or not package.startswith(("tf_keras.", "tensorflow.")):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": _import}  # where import statements look
        super().exec_module(module)


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> "types.ModuleType | _Late":
    package = name.partition(".")[0]
    if level or package not in _LATE or package in sys.modules or importlib.util.find_spec(package) is None:
        return builtins.__import__(name, globals, locals, fromlist, level)
    return _Late(name)


class _Late:
    """A module, or a function of one, that is imported when it is first used."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}"
        if path in ("scipy.linalg", "scipy.ndimage", "scipy.sparse.issparse"):  # named in a `from` of tf_keras
            return _Late(path)
        return pkgutil.resolve_name(path)

    def __call__(self, *args: Any) -> Any:
        return pkgutil.resolve_name(self._path)(*args)
