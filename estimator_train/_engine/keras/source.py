"""Copies a compiled Keras model to new variables without losing any of its state."""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.checkpoints import object_based
from estimator_train._engine.keras import mixed_precision
from estimator_train._engine.keras.adapter import ADVICE, Adapter
from estimator_train._engine.keras.protocols import CloneLayer, CustomObjects, Model
from estimator_train._engine.remedies import UnsuitableError
from estimator_train._engine.types import Strategy


class ModelSource:
    """Makes copies of a compiled Keras model with the state that the model had when it was passed in.

    The given model is read once and never changed. Its state (weights, statistics, lookup tables, optimizer) is kept in
    memory. Raises ValueError if the model is not compiled, or cannot be copied.
    """

    def __init__(
        self,
        adapter: Adapter,
        given: Model,
        build: Callable[[], Model] | None = None,  # returned `given`; None clones it
        custom_objects: CustomObjects | None = None,
        clone_layer: CloneLayer | None = None,  # makes a copy's layer of one of `given`; None copies it, on its device
        seed: int | None = None,  # of initial weights that are not set, of a model made with eager execution off
    ) -> None:
        self.adapter = adapter
        self._custom_objects = custom_objects or {}
        adapter.check(given)
        with self._knowing_custom_objects():
            given = adapter.in_eager_mode(given, seed)
        self._scales_loss = adapter.scales_loss(given)
        self._given = [weakref.ref(variable) for variable in self._trained(given)]
        if given.run_eagerly:
            tf.get_logger().warning(
                "The model is compiled with run_eagerly=True, which the Estimator ignores: its steps are compiled. To "
                "debug them in Python, use the model's own fit."
            )
        self._state = object_based.StateInMemory(adapter.saved_parts(given))
        self._builds_slots = adapter.must_build_slots(given)
        # An object-based checkpoint lacks only this state: the table of an adapted vocabulary is a constant.
        self._vocabularies = [_vocabulary(layer) for layer in adapter.lookups(given)]
        self._template: Model | None = None
        if build is None:
            # Copies are made from a copy made now, so that later changes of the user's model have no effect.
            self._template = self._with_state(lambda: adapter.clone(given, clone_layer))
            self._build = functools.partial(mixed_precision.clone_with_precision, adapter, self._template)
        else:
            self._build = functools.partial(mixed_precision.build_with_precision, adapter, build)

    def copy(self, strategy: Strategy, precision: str | None = None) -> Model:
        """Returns a compiled copy with its own variables, which computes in "bfloat16" or "float16" if one is given."""
        if precision is not None and self._scales_loss:
            raise UnsuitableError(
                "The model scales its loss, so it already uses mixed precision; leave out mixed_precision."
            )
        with strategy.scope():
            copy = self._with_state(lambda: self._build(precision))
            if precision == "float16":
                mixed_precision.scale_loss(self.adapter, copy)
            return copy

    def take_weights(self, path: str) -> None:
        """Replaces the weights that the checkpoint at prefix `path` has; see `object_based.take_weights`."""
        model = self.copy(tf.distribute.get_strategy()) if self._template is None else self._template
        parts = self.adapter.saved_parts(model)
        differences = object_based.take_weights(parts, path)
        self._state = object_based.StateInMemory(parts)
        tf.get_logger().info("Warm-starting from %s", path)
        if differences:
            tf.get_logger().warning("These weights keep their own values: %s", "; ".join(differences))

    def check_variables(self, copy: Model, used: Iterable[tf.Variable]) -> None:
        """Raises ValueError if `used`, the variables of a function of `copy`, include some that the given model trains.

        A copy shares functions with the given model, such as those of Lambda layers, which may refer to its variables.
        """
        own = set(map(id, self._trained(copy)))
        given = {id(each()) for each in self._given} - own - {id(None)}
        foreign = [variable.name for variable in used if id(variable) in given]
        if foreign:
            raise ValueError(
                f"A Lambda layer, a loss or another function of the model {copy.name} uses its variable {foreign[0]}, "
                f"but the Estimator trains a copy, whose functions would still use the original's. {ADVICE}"
            )

    def _trained(self, model: Model) -> list[tf.Variable]:
        variables = self.adapter.trainable_variables(model)
        return [each for variable in variables for each in (variable, *getattr(variable, "values", ()))]

    def _knowing_custom_objects(self) -> contextlib.AbstractContextManager:
        return self.adapter.keras.saving.custom_object_scope(self._custom_objects)

    def _with_state(self, build: Callable[[], Model]) -> Model:
        with self._knowing_custom_objects():
            model = build()
        if self._builds_slots:
            self.adapter.build_slots(model)
        try:
            for layer, (vocabulary, idf_weights) in zip(self.adapter.lookups(model), self._vocabularies, strict=True):
                if vocabulary and not _vocabulary(layer)[0]:
                    layer.set_vocabulary(vocabulary, *([] if idf_weights is None else [idf_weights]))
            self._state.restore_to(self.adapter.saved_parts(model))
        except ValueError as error:
            raise ValueError(
                f"Cannot copy the model {model.name}, because a copy has other weights: {error} {ADVICE}"
            ) from error
        self.adapter.finalize_state(model)
        return model


def _vocabulary(layer: Any) -> tuple[list[str | int], np.ndarray | None]:
    """Returns the vocabulary and the inverse document frequencies of a lookup layer, without special tokens."""
    vocabulary = layer.get_vocabulary(include_special_tokens=False)
    if layer.output_mode != "tf_idf" or not vocabulary:
        return vocabulary, None
    return vocabulary, layer.idf_weights.numpy()[-len(vocabulary) :]
