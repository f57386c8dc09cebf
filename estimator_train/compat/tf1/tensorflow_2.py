"""Keeps `tensorflow` TensorFlow 2 for packages that need it, while it is TensorFlow 1 for everything else."""

import functools
import importlib.machinery
import sys
from collections.abc import Iterable

import tensorflow as tf

from estimator_train.compat.drop_in import old_paths


def keep_for(packages: Iterable[str]) -> None:
    """Makes `import tensorflow` return TensorFlow 2 in modules of these packages that are imported later."""
    old_paths.install(dict.fromkeys(packages, _WithTensorFlow2()))


class _WithTensorFlow2(old_paths.Provider):
    """Provides modules where they are; while one is executed, `import tensorflow` returns TensorFlow 2."""

    def spec_of(self, path, parent_path):
        spec = importlib.machinery.PathFinder.find_spec(path, parent_path)
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
