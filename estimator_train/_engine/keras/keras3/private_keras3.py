"""Private names of Keras 3 that this package uses, each behind a function."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from estimator_train._engine.libraries import private_names_of
from estimator_train._engine.types import Nest


@private_names_of("keras")
def function_arguments(metric: keras.metrics.MeanMetricWrapper) -> dict[str, Any]:
    """Returns the dict of arguments that a Keras 3 MeanMetricWrapper passes to its function."""
    return metric._fn_kwargs


@private_names_of("keras")
def sublayers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a list of the layers that a Keras 3 layer or model has as attributes, or in lists in attributes."""
    return list(layer._layers)


@private_names_of("keras")
def functional_class() -> type:
    from keras.src.models.functional import Functional

    return Functional


@private_names_of("keras")
def seed_states(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Returns a list of the state variables of a Keras 3 layer's own random generators."""
    return [generator.state for generator in layer._seed_generators]


@private_names_of("keras")
def compute_output_spec(function: Callable, *arguments: Nest) -> Nest:
    """Calls a function on KerasTensors, which creates variables at most; the public method of layers hides errors."""
    from keras.src import backend

    return backend.compute_output_spec(function, *arguments)


@private_names_of("keras")
def parts_of_optimizer(optimizer: keras.optimizers.Optimizer) -> dict[str, object]:
    """Returns the trackable parts of a Keras 3 optimizer by name, without the list of variables that it updates."""
    # With that list, TensorFlow would name a model's variables by their place in the optimizer.
    optimizer._trainable_variables  # noqa: B018, fails if the name is gone, unlike leaving it out
    parts = tf.train.TrackableView.children(optimizer)
    return {name: part for name, part in parts.items() if name != "_trainable_variables"}


@private_names_of("keras")
def optimizer_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Returns the list of variables below `_variables` in the checkpoints of a Keras 3 optimizer, in its order."""
    return list(optimizer._variables)


@private_names_of("keras")
def learning_rate_or_schedule(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns the learning rate variable of a Keras 3 optimizer, or its schedule, whose rate `learning_rate` has."""
    return optimizer._learning_rate


@private_names_of("keras")
def deserialized_lambdas() -> contextlib.AbstractContextManager[None]:
    """Returns a context manager in which Keras 3 loads lambdas; its public function would affect the whole process."""
    from keras.src.saving.serialization_lib import SafeModeScope

    return SafeModeScope(False)


@private_names_of("keras")
def weight_decay_exclusions(
    optimizer: keras.optimizers.Optimizer, new: keras.optimizers.Optimizer
) -> tuple[Iterable[keras.Variable], list[str]]:
    """Returns the variables and name patterns passed to `exclude_from_weight_decay`, which the config lacks.

    `new` is another optimizer of the same class, which is changed.
    """
    before = dict(vars(new))
    new.exclude_from_weight_decay(var_names=["any"])
    changed = [name for name, value in vars(new).items() if value is not before.get(name)]
    if all(vars(optimizer).get(name) == before.get(name) for name in changed):
        return (), []  # it was not called, so it does not matter what it changes
    pattern = optimizer._exclude_from_weight_decay_pattern
    return optimizer._exclude_from_weight_decay, [] if pattern is None else [pattern.pattern]


@private_names_of("keras")
def compute_loss(
    model: keras.Model, features: Nest, labels: Nest, predictions: Nest, weights: Nest, training: bool
) -> tf.Tensor:
    """Returns the loss of a Keras 3 model for a batch; older overrides of `compute_loss` do not take `training`."""
    return model._compute_loss(x=features, y=labels, y_pred=predictions, sample_weight=weights, training=training)


@private_names_of("keras")
def loss_metric(model: keras.Model) -> keras.metrics.Mean:
    """Returns the metric "loss" of a Keras 3 model, which the public `compute_loss` does not update."""
    return model._loss_tracker
