"""Private names of tf_keras and Keras 3 that this package uses, each behind a function."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from estimator_train._engine.libraries import private_names_of


@contextlib.contextmanager
@private_names_of("tf_keras", "keras")
def without_optional_parts(optimizer: Any) -> Iterator[None]:
    """Wraps a check of a restore, and lets a Keras optimizer's learning rate, loss scale and product be missing."""
    # A constant rate is a variable; a schedule has none, or another one with its current rate. A model may begin to
    # scale its loss. Checkpoints of earlier versions lack the scale, and the product of `multiply_momenta_once`.
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    children, own = optimizer._trackable_children, vars(optimizer).get("_trackable_children")

    def others(*args: Any, **kwargs: Any) -> dict[str, Any]:
        missing = ("_learning_rate", "_current_learning_rate", "loss_scale", "_u_product")
        return {name: child for name, child in children(*args, **kwargs).items() if name not in missing}

    optimizer._trackable_children = others
    try:
        yield
    finally:
        del optimizer._trackable_children
        if own is not None:
            optimizer._trackable_children = own


@private_names_of("tf_keras", "keras")
def build_legacy_optimizer(optimizer: Any, variables: Iterable[tf.Variable]) -> None:
    """Creates the variables of a legacy Keras optimizer, which has no `build` and creates them in its first update."""
    optimizer._create_all_weights(variables)


@private_names_of("tf_keras", "keras")
def listed_variables(parts: dict[str, Any]) -> Any:
    """Returns the list of variables among the trackable parts of an optimizer of either Keras, or None."""
    return parts.get("_variables")
