"""Keeps `tensorflow` TensorFlow 2 for packages that need it, while it is TensorFlow 1 for everything else."""

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterable

import tensorflow as tf


def keep_for(packages: Iterable[str]) -> None:
    """Makes `import tensorflow` return TensorFlow 2 in modules of these packages that are imported later."""
    sys.meta_path.insert(0, _Finder(packages))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, packages):
        self._packages = frozenset(packages)

    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] not in self._packages:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(_execute, spec.loader.exec_module)
        return spec


def _execute(exec_module, module):
    """Executes a module for which, as for those in all threads meanwhile, `import tensorflow` returns TensorFlow 2."""
    outside = sys.modules["tensorflow"]
    sys.modules["tensorflow"] = tf
    try:
        exec_module(module)
    finally:
        sys.modules["tensorflow"] = outside
