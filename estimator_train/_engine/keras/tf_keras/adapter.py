"""The adapter for tf_keras models."""

from typing import Any

import tensorflow as tf
import tf_keras as keras
from tf_keras import Model, layers
from tf_keras.optimizers import Optimizer

from estimator_train._engine.checkpoints.object_based import SavedParts, parts_by_key
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.keras.adapter import Adapter
from estimator_train._engine.keras.protocols import CustomObjects, Step, Trace, Variable
from estimator_train._engine.keras.tf_keras import cloning, frozen_layers, graph_mode, private_tf_keras, recomputation
from estimator_train._engine.keras.tf_keras.cloning import layers_within
from estimator_train._engine.keras.tf_keras.layer_draws import LayerDraws
from estimator_train._engine.keras.tf_keras.metric_variables import build_metrics
from estimator_train._engine.types import Nest, Strategy


class TfKerasAdapter(Adapter):
    keras = keras
    name = "tf_keras"
    other_name = "Keras 3"
    other_package = "keras"
    foreign_callback = "The model is of tf_keras, but {} is of Keras 3; use the tf_keras callback."
    preprocessing = cloning.PREPROCESSING
    steps_read_metrics = True

    def _is_compiled(self, model: Model) -> bool:
        return bool(model.optimizer)

    layers_within = staticmethod(cloning.layers_within)
    _cloned = staticmethod(cloning.clone)

    def in_eager_mode(self, model: Model, seed: int | None) -> Model:
        if graph_mode.graph_of(model) is None:
            return model
        weights = graph_mode.initial_weights(model, seed)
        copy: Any = self.clone(model)
        if weights:
            copy.set_weights(weights)
        return copy

    def without_loss_scale(self, optimizer: Any) -> Optimizer:
        return cloning.clone_optimizer(optimizer.inner_optimizer)  # Keras refuses to wrap one again

    def prepare_training(self, model: Model, strategy: Strategy) -> None:
        for optimizer in _optimizers(model):
            private_tf_keras.save_all_parts(optimizer)
            if isinstance(optimizer, keras.optimizers.Nadam):
                private_tf_keras.multiply_momenta_once(optimizer)

    recomputing = staticmethod(recomputation.recomputing)
    frozen_and_trained = staticmethod(frozen_layers.split)

    def saved_parts(self, model: Model) -> SavedParts:
        parts = (model, *parts_by_key(model).values())
        built = [part for part in parts if isinstance(part, layers.Layer) and part.built]
        weights = [weight for part in built if not isinstance(part, keras.metrics.Metric) for weight in part.weights]
        return SavedParts(model, weights, self.trainable_variables(model), model.optimizer)

    def variables(self, model: Model) -> list[Variable]:
        return model.weights if model.built else []

    def named_weights(self, model: Model) -> list[tuple[str, tf.Variable]]:
        return [(weight.name.removesuffix(":0"), weight) for weight in self.variables(model)]

    def trainable_variables(self, model: Model) -> list[tf.Variable]:
        return model.trainable_variables if model.built else []

    def build_slots(self, model: Model) -> None:
        optimizer = model.optimizer
        self.learning_rate(optimizer)  # a legacy one creates its variables when asked
        if isinstance(optimizer, keras.optimizers.Optimizer) and model.built:
            optimizer.build(model.trainable_variables)

    def build_variables(self, model: Model, strategy: Strategy, trace: Trace, step: str) -> None:
        is_own = self.is_own_step(model, step)
        if step == "train_step":
            with strategy.scope():
                self.learning_rate(model.optimizer)  # a legacy optimizer creates its variables when asked
                if is_own:
                    self.build_slots(model)
        if is_own:
            build_metrics(model, trace)

    def hyperparameters(self, model: Model) -> dict[str, tf.Variable]:
        return private_tf_keras.hyperparameters(model.optimizer)

    def finalize_state(self, model: Model) -> None:
        for layer in layers_within(model):
            layer.finalize_state()  # Normalization computes with tensors derived from its variables
        for optimizer in _optimizers(model):
            if isinstance(optimizer, keras.optimizers.Nadam):
                private_tf_keras.complete_product(optimizer)

    def statistics(self, model: Model) -> list[bytes]:
        default = layers.Layer.finalize_state
        readers = [layer for layer in layers_within(model) if type(layer).finalize_state is not default]
        return [weight.tobytes() for layer in readers for weight in layer.get_weights()]

    def inputs(self, model: Model) -> dict[str, Any]:
        if not model.inputs:
            return {}
        return dict(zip(model.input_names, model.inputs, strict=True))

    def run_step(self, model: Model, strategy: Strategy, step: Step, batch: Nest) -> tuple[Nest, ...]:
        # Keras aggregates metrics over replicas, and sums other values in the logs. Its own loss is divided by the
        # number of replicas, so the sum is the loss of the whole batch.
        logs, *others = strategy.run(step, args=(batch,))
        spans_workers = synchronous.spans_workers(strategy)
        # With one replica per process, the values do not show whether they are aggregated.
        results = private_tf_keras.last_metric_results(model.metrics) if spans_workers else []
        aggregated = set(map(id, results))

        def reduced(value: tf.Tensor) -> tf.Tensor:
            agrees = not spans_workers or id(value) in aggregated
            if isinstance(value, tf.distribute.DistributedValues) or not agrees:
                return strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
            return value

        return {name: reduced(value) for name, value in logs.items()}, *others

    def _compute_loss(self, model: Model, data: Nest, predictions: Nest, training: bool) -> tf.Tensor:
        features, labels, weights = self._unpacked(data)
        return model.compute_loss(features, labels, predictions, weights)

    def _scaled(self, loss: tf.Tensor, model: Model) -> tf.Tensor:
        if not self.scales_loss(model):
            return loss
        return model.optimizer.get_scaled_loss(loss)

    def apply_gradients(self, model: Model, means: list[tf.Tensor | None]) -> None:
        if self.scales_loss(model):
            means = model.optimizer.get_unscaled_gradients(means)
        super().apply_gradients(model, means)

    def learning_rate(self, optimizer: Optimizer) -> tf.Tensor | None:
        rate = getattr(optimizer, "learning_rate", None)
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):  # a legacy optimizer's
            rate = rate(optimizer.iterations - 1)
        return None if rate is None else tf.cast(rate, tf.float32)

    draws = staticmethod(LayerDraws)

    def count_step(self, model: Model, step: int) -> None:
        private_tf_keras.train_counter(model).assign(step)

    def load_model(self, path: str, custom_objects: CustomObjects | None, safe_mode: bool) -> tuple[Model | None, bool]:
        lambdas = private_tf_keras.LoadedLambdas(refused=safe_mode)
        with lambdas.scope():
            try:
                model = keras.models.load_model(path, custom_objects=custom_objects)
            except ValueError:
                if not (safe_mode and lambdas.found):
                    raise
                model = None
        return model, lambdas.found


def _optimizers(model: Model) -> list[keras.optimizers.Optimizer]:
    """Returns a list of the optimizers of `model` that are not legacy ones, without LossScaleOptimizers around them."""
    # Variables are left alone: one that is asked for an attribute may sum over the processes of a cluster.
    parts = [part for part in tf.train.TrackableView(model).descendants() if not isinstance(part, tf.Variable)]
    # A LossScaleOptimizer has the parts of its optimizer, but not the optimizer, as its parts.
    optimizers = [getattr(part, "inner_optimizer", part) for part in parts]
    return [optimizer for optimizer in optimizers if isinstance(optimizer, keras.optimizers.Optimizer)]
