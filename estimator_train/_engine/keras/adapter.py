"""Adapter: what the package asks of a generation of Keras."""

import abc
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, ClassVar

import tensorflow as tf

from estimator_train._engine.checkpoints.object_based import SavedParts
from estimator_train._engine.keras.private_keras import compile_arguments
from estimator_train._engine.keras.protocols import (
    CloneLayer,
    CustomObjects,
    FrozenPart,
    Layer,
    Logs,
    Model,
    Optimizer,
    Step,
    Trace,
    Variable,
)
from estimator_train._engine.keras.step_draws import StepDraws
from estimator_train._engine.remedies import UnsuitableError
from estimator_train._engine.types import Nest, Strategy

ADVICE = (
    "Pass a function without arguments that builds and compiles the model instead: "
    "model_to_estimator(keras_model=build_model)."
)


def compile_by_config(keras: ModuleType, copy: Any, model: Any) -> bool:
    """Compiles a copy of a `model` whose class overrides `compile`; returns False if it does not."""
    kind = type(model)
    if kind.compile is keras.Model.compile:
        return False
    if kind.compile_from_config is keras.Model.compile_from_config:
        raise ValueError(f"{kind.__name__} overrides compile() but not get_compile_config() and compile_from_config().")
    copy.compile_from_config(model.get_compile_config())
    return True


class Adapter(abc.ABC):
    """The interface to models of one generation of Keras: tf_keras, which is Keras 2, or Keras 3.

    `tf_keras.adapter` and `keras3.adapter` implement it, and all other modules use models of either Keras through it.
    A method that is not abstract is the same for both, or right for one of them. Adapters have no state.
    """

    keras: ModuleType  # `tf_keras` or `keras`
    name: ClassVar[str]  # what messages call this Keras
    other_name: ClassVar[str]  # and the other one
    other_package: ClassVar[str]  # that of the other Keras
    foreign_callback: ClassVar[str]  # the error for a callback of the other Keras, with a place for the callback
    preprocessing: ClassVar[tuple[type, ...]]  # the classes of preprocessing layers
    steps_read_metrics: ClassVar[bool]  # whether a step returns the results of metrics, or `run_step` reads them later

    # Copies

    def check(self, model: Model) -> None:
        """Raises ValueError if `model` is not compiled, or compiled with parts of the other Keras."""
        if not self._is_compiled(model):
            raise ValueError(
                "The given keras model has not been compiled yet. "
                "Please compile the model with `model.compile()` before calling `model_to_estimator()`."
            )
        arguments = compile_arguments(model)
        parts = tf.nest.flatten([arguments.get(kind) for kind in ("optimizer", "loss", "metrics", "weighted_metrics")])
        for part in parts:
            if any(base.__module__.split(".")[0] == self.other_package for base in type(part).__mro__):
                raise ValueError(
                    f"The {self.name} model {model.name} is compiled with {part!r} of {self.other_name}; use its "
                    f"{self.name} counterpart."
                )

    @abc.abstractmethod
    def _is_compiled(self, model: Model) -> bool:
        """Returns whether `compile` of `model` has been called."""

    @abc.abstractmethod
    def layers_within(self, model: Model) -> list[Layer]:
        """Returns a list of all layers in `model`, and in these."""

    def in_eager_mode(self, model: Model, seed: int | None) -> Model:
        """Returns `model`, or for a model made in a v1 graph, an eager copy with its weights and a new optimizer."""
        return model

    def clone(self, model: Model, clone_layer: CloneLayer | None = None) -> Model:
        """Returns a compiled model with the same layers and settings, and new variables.

        `clone_layer` makes a layer of the clone from one of `model`; None copies it. Raises UnsuitableError if the
        model cannot be copied.
        """
        try:
            return self._cloned(model, clone_layer)
        except (TypeError, ValueError, NotImplementedError, AttributeError) as error:  # Keras raises any of them
            raise UnsuitableError(f"Cannot copy the model {model.name}: {error} {ADVICE}") from error

    @abc.abstractmethod
    def _cloned(self, model: Model, clone_layer: CloneLayer | None) -> Model:
        """Does the work of `clone`; raises any error."""

    def clone_layer(self, layer: Any, change: Callable[[Any], Any]) -> Layer:
        """Returns a new layer with the settings of `layer`, after `change` of its configuration."""
        return type(layer).from_config(change(layer.get_config()))

    def scales_loss(self, model: Model) -> bool:
        """Returns whether the optimizer of `model` scales the loss."""
        return isinstance(model.optimizer, self.keras.mixed_precision.LossScaleOptimizer)

    def without_loss_scale(self, optimizer: Any) -> Optimizer:
        """Returns the optimizer in a LossScaleOptimizer, as one that may get another loss scale."""
        return optimizer.inner_optimizer

    def lookups(self, model: Model) -> list[Any]:
        """Returns a list of the layers of `model` that have vocabularies, such as StringLookup."""
        kinds = self.keras.layers.StringLookup, self.keras.layers.IntegerLookup
        return [layer for layer in self.layers_within(model) if isinstance(layer, kinds)]

    @abc.abstractmethod
    def prepare_training(self, model: Model, strategy: Strategy) -> None:
        """Prepares a copy's optimizers for compiled steps; UnsuitableError if the replicas cannot train the model."""

    # Parts of a model

    def recomputing(self, model: Model, strategy: Strategy) -> Model:
        """Returns a model that trains `model`, but computes most activations twice; UnsuitableError if it cannot."""
        raise _cannot_be_taken_apart(model, "recompute")

    def frozen_and_trained(self, model: Model, strategy: Strategy, recompute: bool) -> tuple[FrozenPart, Model]:
        """Returns the part of frozen leading layers, and the part after it, which trains, perhaps by `recomputing`."""
        raise _cannot_be_taken_apart(model, "frozen_features")

    # Variables and checkpoints

    def is_built(self, model: Model) -> bool:
        """Returns whether `model` and all its layers have created their variables."""
        return model.built and all(layer.built for layer in self.layers_within(model))

    @abc.abstractmethod
    def saved_parts(self, model: Model) -> SavedParts:
        """Returns the `SavedParts` of `model`."""

    @abc.abstractmethod
    def variables(self, model: Model) -> list[Variable]:
        """Returns a list of the variables, besides the slots of a tf_keras optimizer, that `model` has created."""

    @abc.abstractmethod
    def named_weights(self, model: Model) -> list[tuple[str, tf.Variable]]:
        """Returns a list of (name, TensorFlow variable) for the weights that `model` has created."""

    @abc.abstractmethod
    def trainable_variables(self, model: Model) -> list[tf.Variable]:
        """Returns a list of the TensorFlow variables that `model` trains, as far as it has created them."""

    @abc.abstractmethod
    def build_slots(self, model: Model) -> None:
        """Creates the optimizer's variables for those that `model` trains and has; call it in its strategy's scope."""

    def must_build_slots(self, model: Model) -> bool:
        """Returns whether copies must `build_slots` before a restore, or may restore them when they are created."""
        return False

    @abc.abstractmethod
    def build_variables(self, model: Model, strategy: Strategy, trace: Trace, step: str) -> None:
        """Creates the variables that the first `step`, "train_step" or "test_step", would create, as far as possible.

        `trace` traces a function of a replica's batch in Keras' form, without running it.
        """

    @abc.abstractmethod
    def hyperparameters(self, model: Model) -> dict[str, tf.Variable]:
        """Returns the hyperparameters of the model's optimizer that are variables, by their names."""

    @abc.abstractmethod
    def finalize_state(self, model: Model) -> None:
        """Makes layers and optimizers use restored state, in the scope of the model's strategy."""

    def finish_variables(self, model: Model, made: Iterable[Variable]) -> None:  # noqa: B027, a default
        """Completes the variables `made`, just created, in the scope of the model's strategy."""

    @abc.abstractmethod
    def statistics(self, model: Model) -> list[bytes]:
        """Returns the weights that `finalize_state` reads."""

    # Steps

    @abc.abstractmethod
    def inputs(self, model: Model) -> dict[str, Any]:
        """Returns a dict of the names of the model's inputs to their shapes and dtypes; empty if they are unknown."""

    def output_names(self, model: Model) -> list[str] | None:
        """Returns a list of the names of the model's outputs, or None if they are unknown."""
        return getattr(model, "output_names", None)

    def number_of_classes(self, model: Model) -> int | None:
        """Returns how many classes a model with one output, trained on class indices, has; None for other models."""
        loss, losses = compile_arguments(model).get("loss"), self.keras.losses
        outputs: Any = getattr(model, "outputs", None) or ()
        units = outputs[0].shape[-1] if len(outputs) == 1 else None
        of_indices = "sparse_categorical_crossentropy", losses.sparse_categorical_crossentropy
        of_two = "binary_crossentropy", losses.binary_crossentropy
        if loss in of_indices or isinstance(loss, losses.SparseCategoricalCrossentropy):
            return units
        if units == 1 and (loss in of_two or isinstance(loss, losses.BinaryCrossentropy)):
            return 2
        return None

    def is_own_step(self, model: Model, step: str) -> bool:
        """Returns whether `step` is Keras' own: the class of `model` does not override that method."""
        return getattr(type(model), step) is getattr(self.keras.Model, step)

    @abc.abstractmethod
    def run_step(self, model: Model, strategy: Strategy, step: Step, batch: Nest) -> tuple[Nest, ...]:
        """Runs `step` on every replica; returns (logs over all replicas, the other values of `step` per replica).

        `step` takes a replica's batch and returns (logs, ...), where logs is a dict of names to tensors.
        """

    def gradients(self, model: Model, data: Nest) -> tuple[list[tf.Tensor | None], Nest]:
        """Runs the first half of Keras' `train_step`; returns (gradients of the trainable variables, predictions)."""
        with tf.GradientTape() as tape:
            predictions = model(self._unpacked(data)[0], training=True)
            loss = self._scaled(self._compute_loss(model, data, predictions, training=True), model)
        return tape.gradient(loss, model.trainable_variables), predictions

    def metrics(self, model: Model, data: Nest, predictions: Nest) -> Logs:
        """Updates the compiled metrics and returns the logs, as Keras' `train_step` does at its end."""
        features, labels, weights = self._unpacked(data)
        return model.compute_metrics(features, labels, predictions, weights)

    def _unpacked(self, data: Nest) -> tuple[Nest, Nest, Nest]:
        """Returns (features, labels, sample weights) of a batch in Keras' form."""
        return self.keras.utils.unpack_x_y_sample_weight(data)

    @abc.abstractmethod
    def _compute_loss(self, model: Model, data: Nest, predictions: Nest, training: bool) -> tf.Tensor:
        """Returns the loss for a batch and updates the metric "loss", as Keras' steps do."""

    @abc.abstractmethod
    def _scaled(self, loss: tf.Tensor, model: Model) -> tf.Tensor:
        """Returns `loss` as the optimizer of `model` scales it."""

    def apply_gradients(self, model: Model, means: list[tf.Tensor | None]) -> None:
        """Runs the second half of the step: updates the trainable variables with the result of `gradients`."""
        optimizer: Any = model.optimizer
        if means:  # Keras 3 cannot apply none, and the whole model may be frozen
            optimizer.apply_gradients(zip(means, model.trainable_variables, strict=True))

    def test_and_predict(self, model: Model, data: Nest) -> tuple[Logs, Nest]:
        """Does the work of Keras' `test_step` and `predict_step` in one pass; returns (logs, predictions)."""
        predictions = model(self._unpacked(data)[0], training=False)
        self._compute_loss(model, data, predictions, training=False)
        return self.metrics(model, data, predictions), predictions

    @abc.abstractmethod
    def learning_rate(self, optimizer: Optimizer | None) -> tf.Tensor | None:
        """Returns the learning rate of the last update, a float32 scalar, or None if unknown, as for v1 optimizers."""

    def draws(self, model: Model, trained_examples: tf.Variable, run_seed: tf.Variable) -> StepDraws:
        """Returns the `StepDraws` of a training of `model`, for the position in these variables."""
        return StepDraws(trained_examples, run_seed)

    def reset_states(self, model: Model) -> None:
        """Resets the states of stateful recurrent layers, which would otherwise continue from the run before."""
        for layer in self.layers_within(model):
            if isinstance(layer, self.keras.layers.RNN) and layer.stateful and layer.built:
                layer.reset_states()

    # Callbacks

    def callback_list(self, model: Model, callbacks: list[Any], steps_per_epoch: int | None, epochs: float) -> Any:
        """Returns fit's `CallbackList` of `callbacks`; raises UnsuitableError if one is from the other Keras."""
        for callback in callbacks:
            if not isinstance(callback, self.keras.callbacks.Callback):
                raise UnsuitableError(self.foreign_callback.format(f"{callback!r}"))
        return self.keras.callbacks.CallbackList(
            callbacks, model=model, epochs=epochs, steps=steps_per_epoch, verbose=0
        )

    def count_step(self, model: Model, step: int) -> None:  # noqa: B027, a default
        """Sets the step counter of fit, if callbacks such as TensorBoard read it from the model."""

    # Files

    @abc.abstractmethod
    def load_model(self, path: str, custom_objects: CustomObjects | None, safe_mode: bool) -> tuple[Model | None, bool]:
        """Returns the saved model at `path` and whether it has a lambda; no model if `safe_mode` forbids a lambda."""


def _cannot_be_taken_apart(model: Model, option: str) -> UnsuitableError:
    return UnsuitableError(
        f"{model.name} is a Keras 3 model, and only tf_keras models can be taken apart; train it without {option}, or "
        "build it with tf_keras."
    )
