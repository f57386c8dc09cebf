"""Private names of TensorFlow that this package uses, each behind a function."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from estimator_train._engine.libraries import private_names_of


@private_names_of("tensorflow")
def fn_args(function: Callable) -> tuple[str, ...]:
    """Returns a tuple of the names of a function's arguments, like the old library's `util.fn_args`."""
    from tensorflow.python.util import function_utils

    return function_utils.fn_args(function)


@private_names_of("tensorflow")
def deprecation() -> ModuleType:
    """Returns the module of the decorators `deprecated`, `deprecated_args` and others, and of `silence`."""
    from tensorflow.python.util import deprecation

    return deprecation


@private_names_of("tensorflow")
def iterators() -> list[Any]:
    """Returns the iterators of the default graph, each as its resource."""
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.framework import ops

    return ops.get_collection(iterator_ops.GLOBAL_ITERATORS)


@private_names_of("tensorflow")
def iterator_saveable(iterator: Any, policy: Any) -> object:
    """Returns what a v1 Saver needs to save an iterator, given as its resource, with an `ExternalStatePolicy`."""
    from tensorflow.python.data.ops import iterator_ops

    return iterator_ops._IteratorSaveable(iterator, iterator.name, external_state_policy=policy)


@private_names_of("tensorflow")
def lookup_ops() -> ModuleType:
    """Returns the module of the initializers of `tf.contrib.lookup`."""
    from tensorflow.python.ops import lookup_ops

    return lookup_ops


@private_names_of("tensorflow")
def nest() -> ModuleType:
    """Returns the module of `tf.nest`, with the names that only TensorFlow 1 made public."""
    from tensorflow.python.util import nest

    return nest


@private_names_of("tensorflow")
def unwrapped_compat_module(version: str) -> ModuleType:
    """Returns the module "v1" or "v2" in `tensorflow._api`, which `tf.compat.v1` or `tf.compat.v2` wraps."""
    from tensorflow._api.v2.compat import v1, v2

    return {"v1": v1, "v2": v2}[version]
