"""Predictor: loads one checkpoint once and predicts batch after batch."""

import contextlib
import threading
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.session.out_of_memory import explaining_oom
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train._engine.types import Nest


class Predictor:
    """A callable that returns the predictions for a batch of features; `Estimator.predictor` creates it.

    ```python
    with estimator.predictor() as predict:
        print(predict({"x": [[1.0, 2.0]]}))
    ```

    The first call traces the model, or builds the graph of a model_fn, and so does a call with features of another
    dtype or structure, or of a new size in a dimension other than the batch. Several threads may call a Predictor at
    the same time. `checkpoint_path` is the path prefix of its checkpoint, or None for initial weights.
    """

    def __init__(self, function_of: Callable[[Any], tuple[Callable, Callable]], checkpoint_path: str | None) -> None:
        """`function_of` is the result of `PreparedModel.predict_functions`."""
        self.checkpoint_path = checkpoint_path
        self._function_of: Callable | None = function_of
        self._functions: dict[Any, Callable] = {}  # by the `_kind` of the features
        self._built: list[tuple[Any, Callable]] = []  # pairs of the features' specs and their functions
        self._closing = contextlib.ExitStack()
        self._lock = threading.Lock()

    def __call__(self, features: Any) -> dict[Any, np.ndarray]:
        """Returns a dict of prediction keys to numpy arrays, or one array if a model_fn's predictions are one tensor.

        `features` is a batch as of an input_fn's dataset: an array with one entry per example, or a dict or tuple of
        such arrays. Arrays may be numpy arrays, tensors or lists of numbers; Python floats become float32.

        Raises ValueError if a feature is a scalar, none of the `predict_keys` is a prediction, or the Predictor is
        closed.
        """
        with explaining_oom(), eager_mode():
            features = _as_arrays(features)
            kind = _kind(features)
            function = self._functions.get(kind) or self._new_function(kind, features)
            return function(features)

    def close(self) -> None:
        """Frees the model's memory; later calls raise ValueError."""
        with self._lock:
            self._function_of = None
            self._functions, self._built = {}, []
            self._closing.close()

    def __enter__(self) -> "Predictor":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _new_function(self, kind: Hashable, features: Nest) -> Callable[[Nest], Nest]:
        spec = _batch_spec(features)
        with self._lock:
            if self._function_of is None:
                raise ValueError("The Predictor is closed; create another with Estimator.predictor().")
            for built, _ in self._built:
                spec = _common(built, spec) or spec
            function = next((function for built, function in self._built if built == spec), None)
            if function is None:
                function, close = self._function_of(spec)
                self._built.append((spec, function))
                self._closing.callback(close)
            self._functions[kind] = function
        return function


def _as_arrays(features: Nest) -> Nest:
    """Converts the parts that are neither tensors nor numpy arrays to tensors; a list is one part."""
    if isinstance(features, dict):
        return {name: _as_arrays(part) for name, part in features.items()}
    if isinstance(features, tuple):
        return tuple(map(_as_arrays, features))
    if isinstance(features, np.ndarray) or tf.is_tensor(features):
        return features
    return tf.convert_to_tensor(features)


def _kind(features: Nest) -> Hashable:
    """Returns a hashable key of everything but the batch size, the same for all features that share a function."""
    if isinstance(features, dict):
        return tuple((name, _kind(part)) for name, part in features.items())
    if isinstance(features, tuple):
        return tuple(map(_kind, features))
    return type(features), features.dtype, len(features.shape), features.shape[1:]


def _batch_spec(features: Nest) -> Nest:
    """Returns the `tf.TypeSpec`s of batches of any size, as a dataset of such batches would have them."""
    for part in tf.nest.flatten(features):
        if not len(part.shape):
            raise ValueError(
                f"The predictor takes batches, but a feature is {part!r}; pass one example as a batch of one."
            )
    return tf.data.Dataset.from_tensors(features).unbatch().batch(1).element_spec


def _common(spec: Nest, other: Nest) -> Nest | None:
    """Returns the narrowest spec compatible with both specs, or None if they differ in more than sizes."""
    try:
        tf.nest.assert_same_structure(spec, other)
    except (TypeError, ValueError):
        return None
    pairs = list(zip(tf.nest.flatten(spec), tf.nest.flatten(other), strict=True))
    if any(one.shape.rank != another.shape.rank for one, another in pairs):
        return None
    common = [one.most_specific_common_supertype([another]) for one, another in pairs]
    return None if None in common else tf.nest.pack_sequence_as(spec, common)
