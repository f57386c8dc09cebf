"""A kept predictor: one checkpoint, loaded once, predicts the batches that it is called with."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train.session.out_of_memory import explaining_oom
from estimator_train.session.private_names import eager_mode


class Predictor:
    """A function of a batch of features that returns its predictions; `Estimator.predictor` makes it.

    ```python
    with estimator.predictor() as predict:
        print(predict({"x": [[1.0, 2.0]]}))
    ```

    The first call traces the model, or builds the graph of a model_fn, and so does one with features of another dtype
    or structure. Other batch sizes cost nothing. A dimension whose size varies from call to call is traced once more,
    for any size. Several threads may call it at once.

    Attributes:
      checkpoint_path: path prefix of the checkpoint, or None for initial weights. `Estimator.latest_checkpoint` gives
        another one once there is a newer one; the Predictor stays as it is.
    """

    def __init__(self, function_of: Callable[[Any], tuple[Callable, Callable]], checkpoint_path: str | None) -> None:
        """`function_of`: of `model_fn.PreparedModel.predict_functions`."""
        self.checkpoint_path = checkpoint_path
        self._function_of: Callable | None = function_of
        self._functions: dict[Any, Callable] = {}  # by what `_kind` gives of the features
        self._built: list[tuple[Any, Callable]] = []  # specs of features, and their functions
        self._closing = contextlib.ExitStack()
        self._lock = threading.Lock()

    def __call__(self, features: Any) -> dict[Any, np.ndarray]:
        """Predicts a batch.

        Args:
          features: as an input_fn's dataset gives them to the model: an array with an entry an example, or a dict or
            tuple of such. Numpy arrays, tensors and lists of numbers are taken; Python's floats become float32.

        Returns:
          Dict of prediction keys to numpy arrays; the array alone if a model_fn's predictions are one tensor.

        Raises:
          ValueError: a feature is a scalar, no prediction has one of the `predict_keys`, or the Predictor is closed.
        """
        with explaining_oom(), eager_mode():
            features = _as_arrays(features)
            kind = _kind(features)
            function = self._functions.get(kind) or self._new_function(kind, features)
            return function(features)

    def close(self) -> None:
        """Frees the memory of the model; every later call is refused."""
        with self._lock:
            self._function_of = None
            self._functions, self._built = {}, []
            self._closing.close()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _new_function(self, kind, features):
        spec = _batch_spec(features)
        with self._lock:
            if self._function_of is None:
                raise ValueError("The Predictor is closed; make another with Estimator.predictor().")
            for built, _ in self._built:
                spec = _common(built, spec) or spec
            function = next((function for built, function in self._built if built == spec), None)
            if function is None:
                function, close = self._function_of(spec)
                self._built.append((spec, function))
                self._closing.callback(close)
            self._functions[kind] = function
        return function


def _as_arrays(features):
    """`features` with tensors for all that is neither a tensor nor a numpy array; structured as tf.data has it."""
    if isinstance(features, dict):
        return {name: _as_arrays(part) for name, part in features.items()}
    if isinstance(features, tuple):
        return tuple(map(_as_arrays, features))
    return features if isinstance(features, np.ndarray) or tf.is_tensor(features) else tf.convert_to_tensor(features)


def _kind(features):
    """What batches of features have in common that one function predicts: all but their size. Fast, and hashable."""
    if isinstance(features, dict):
        return tuple((name, _kind(part)) for name, part in features.items())
    if isinstance(features, tuple):
        return tuple(map(_kind, features))
    return type(features), features.dtype, len(features.shape), features.shape[1:]


def _batch_spec(features):
    """The `tf.TypeSpec`s of batches of any size of such examples, as a dataset's."""
    for part in tf.nest.flatten(features):
        if not len(part.shape):
            raise ValueError(
                f"The predictor takes batches, and a feature is {part!r}: give one example as a batch of one."
            )
    return tf.data.Dataset.from_tensors(features).unbatch().batch(1).element_spec


def _common(spec, other):
    """The narrowest spec that has all batches of both, or None where these differ in more than sizes."""
    try:
        tf.nest.assert_same_structure(spec, other)
    except (TypeError, ValueError):
        return None
    pairs = list(zip(tf.nest.flatten(spec), tf.nest.flatten(other), strict=True))
    if any(one.shape.rank != another.shape.rank for one, another in pairs):
        return None
    common = [one.most_specific_common_supertype([another]) for one, another in pairs]
    return None if None in common else tf.nest.pack_sequence_as(spec, common)
