"""Defines one step of a Keras model in each mode, as in Keras' fit, evaluate and predict."""

import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar

import tensorflow as tf

from estimator_train._engine.input_fns.returned import as_tuple
from estimator_train._engine.keras import private_keras, private_tensorflow
from estimator_train._engine.keras.accumulation import AccumulatedGradients
from estimator_train._engine.keras.adapter import Adapter
from estimator_train._engine.keras.protocols import Logs, Model, Step
from estimator_train._engine.keras.step_draws import StepDraws, seed_at
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys
from estimator_train._engine.remedies import UnsuitableError
from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.function_session import HookGraph
from estimator_train._engine.types import Nest, Scaffold, Strategy


@dataclasses.dataclass(unsafe_hash=True)
class StepProgram:
    """Defines what a `loop.Loop` does with each batch. `KerasModel.prepare` chooses one for each run.

    Programs compare equal if their fields do, and a run with an equal program reuses its compiled loop. Create them
    outside of any trace: the loop is traced without AutoGraph, which must be on when a model's step is compiled.
    """

    adapter: Adapter  # for the model's Keras
    model: Model
    preprocess: Callable | None  # each replica first applies it to the features of a batch
    mode: ClassVar[str]  # of its EstimatorSpec, one of `ModeKeys`
    trains: ClassVar[bool] = False  # whether its steps change the model
    keras_step: ClassVar[str | None] = None  # the name of the model's step that computes its compiled loss
    batches_per_step = 1  # batches that a step takes on each replica; `update` ends a step of several batches
    keeps_each_step = False  # whether a call gives the values of each of its steps, `step_outputs.EACH_STEP`

    def spec(self, hook_graph: HookGraph, scaffold: Scaffold) -> EstimatorSpec:
        """Returns the EstimatorSpec of the hook graph; call it with the graph as default."""
        raise NotImplementedError

    def triggers(self, hook_graph: HookGraph) -> list[tf.Tensor | tf.Operation]:
        """Returns the tensors and ops of the hook graph that run a step when they are fetched."""
        return [hook_graph.step_op]

    def build_variables(self, strategy: Strategy, element_spec: Nest) -> None:
        """Creates variables before the first step, because tf.function traces a function that creates some twice."""
        if self.keras_step is None:
            return

        def trace(function: Callable[[Nest], object]) -> None:
            is_traced = False

            @tf.function(autograph=False)
            def on_replicas(batch: Nest) -> None:
                nonlocal is_traced
                if not is_traced:  # the second trace has no variables to create
                    is_traced = True
                    strategy.run(lambda batch: function(self._data(batch)), args=(batch,))

            on_replicas.get_concrete_function(element_spec)

        self.adapter.build_variables(self.model, strategy, trace, self.keras_step)

    def step(self, batch: Nest) -> tuple[dict[str, Nest], Nest]:
        """Runs one step on a replica; returns (a dict of value names to tensors, tensors with an entry per example)."""
        raise NotImplementedError

    def run_step(self, strategy: Strategy, step: Step, batch: Nest) -> tuple[Nest, ...]:
        """Runs `step` on every replica; see `run_step` of the adapters."""
        return self.adapter.run_step(self.model, strategy, step, batch)

    def update(self, batches: tf.Tensor) -> None:
        """Runs on each replica at the end of a step of several batches; there was data for `batches` of them."""

    def extra_outputs(self) -> dict[str, tf.Tensor]:
        """Returns a dict of names to additional values of the last step, which are the same on every replica."""
        return {}

    def add_examples(self, examples: tf.Tensor) -> None:
        """Counts the examples of a batch of all replicas, an int64 scalar, once they have been taken."""

    def end_step(self) -> None:
        """Counts the examples of a step of several batches, once `update` has run on each replica."""

    def reset(self) -> None:
        """Resets accumulated state, such as metrics, before a run."""

    def _data(self, batch: Nest) -> Nest:
        """Returns the batch in Keras' form: (features[, labels[, sample weights]]), or only the features."""
        parts = self._parts(batch)
        needs_labels = self.keras_step and self.adapter.is_own_step(self.model, self.keras_step)
        if needs_labels and len(parts) < 2 and getattr(self.model, "loss", None):
            raise ValueError(
                f"Target data is missing: the model was compiled with loss={self.model.loss}, but the input_fn gives "
                "features only; let it give (features, labels)."
            )
        if isinstance(batch, tuple) or len(parts) > 1:
            return parts
        return parts[0]

    def _parts(self, batch: Nest) -> tuple[Nest, ...]:
        """Returns (features[, labels[, sample weights]]); in tf.estimator, sample weights were part of the features."""
        features, *rest = as_tuple(batch)
        if self.preprocess is not None:
            features = self.preprocess(features)
        if isinstance(features, dict) and features.keys() == {"features", "sample_weights"} and len(rest) < 2:
            return features["features"], *rest, features["sample_weights"]
        return (features, *rest)


@dataclasses.dataclass(unsafe_hash=True)
class TrainingProgram(StepProgram):
    """Runs `model.train_step`. Values are aggregated over all replicas, for the last step or since the epoch began."""

    rename: Callable  # maps the logs of the model's step to the names that hooks see
    trained_examples: tf.Variable = dataclasses.field(compare=False)  # int64: of all replicas, in complete steps
    draws: StepDraws = dataclasses.field(compare=False)  # the random numbers of the step's layers and changes
    jit_compile: bool = False  # whether XLA compiles the step, even if the model was compiled without
    replicas: int = 1  # that run the steps, in all processes
    batches_per_step: int = 1
    has_epochs: bool = False  # whether the model's metrics accumulate over steps until an `EpochHook` resets them
    changes: tuple[Callable, ...] = ()  # applied to a batch after `preprocess`; see `protocols.ChangesTraining`
    keeps_each_step: bool = False

    mode = ModeKeys.TRAIN
    trains = True
    keras_step = "train_step"

    def __post_init__(self) -> None:
        adapter, model, accumulates = self.adapter, self.model, self.batches_per_step > 1
        self._accumulated = None
        if accumulates:
            self._needs_own_step("accumulate_steps", "accumulate there, or leave out accumulate_steps")
            self._accumulated = AccumulatedGradients(adapter, model)
        by_xla = self.jit_compile or model.jit_compile
        # Replicas have to reduce gradients and metrics between them, which a compiled function cannot do on CPUs, nor
        # over workers. So XLA compiles what comes before on each replica, forward and backward pass.
        passes_by_xla = by_xla and self.replicas > 1
        if passes_by_xla:
            setting = f"jit_compile on {self.replicas} replicas"
            self._needs_own_step(setting, "train on one replica, or leave out jit_compile")

        train_step = private_tensorflow.with_autograph(model.train_step)

        def whole_step(data: Nest, position: tf.Tensor) -> Logs:
            self.draws.begin(position)
            return train_step(data)

        step: Callable[[Nest, tf.Tensor], Logs] = whole_step
        if accumulates or passes_by_xla:
            step = self._step_in_parts(passes_by_xla)
        if not (accumulates or self.has_epochs):  # otherwise the values would be running means
            step = self._with_own_metrics(step)
        self._train_step = _compiled(step, by_xla and not passes_by_xla)

    def _with_own_metrics(self, step: Callable[[Nest, tf.Tensor], Logs]) -> Callable[[Nest, tf.Tensor], Logs]:
        """Returns a step whose metrics are of its batch; XLA compiles what resets them, because the step does that."""
        reads_metrics, reset = self.adapter.steps_read_metrics, self.model.reset_metrics

        def step_alone(data: Nest, position: tf.Tensor) -> Logs:
            if not reads_metrics:
                reset()
            logs = step(data, position)
            if reads_metrics:  # afterwards, because the first trace may create metrics
                reset()
            return logs

        return step_alone

    def _step_in_parts(self, passes_by_xla: bool) -> Callable[[Nest, tf.Tensor], Logs]:
        """Returns a step that takes the gradients apart from what uses them, and may compile the former with XLA."""
        adapter, model = self.adapter, self.model
        own_gradients = private_tensorflow.with_autograph(adapter.gradients)
        apply_gradients = private_tensorflow.with_autograph(adapter.apply_gradients)
        metrics = private_tensorflow.with_autograph(adapter.metrics)

        def gradients(data: Nest, position: tf.Tensor) -> tuple[list[tf.Tensor | None], Nest]:
            self.draws.begin(position)
            return own_gradients(model, data)

        gradients_of = _gradients_by_xla(gradients) if passes_by_xla else gradients

        def step(data: Nest, position: tf.Tensor) -> Logs:
            found, predictions = gradients_of(data, position)
            if self._accumulated is None:
                apply_gradients(model, found)
            else:
                self._accumulated.add(found)
            return metrics(model, data, predictions)

        return step

    def _needs_own_step(self, setting: str, mend: str) -> None:
        if not self.adapter.is_own_step(self.model, "train_step"):
            name = type(self.model).__name__
            raise UnsuitableError(f"{setting} needs Keras' own training step, but {name} overrides train_step; {mend}.")

    def spec(self, hook_graph: HookGraph, scaffold: Scaffold) -> EstimatorSpec:
        loss = _loss(hook_graph)
        for name, value in hook_graph.model_values.items():
            if value is not loss and value.shape.rank == 0 and value.dtype.is_floating:
                _summarize(name, value)
        if step_outputs.LEARNING_RATE in hook_graph.values:
            _summarize("learning_rate", hook_graph.values[step_outputs.LEARNING_RATE])
        if self.has_epochs:
            hook_graph.graph.add_to_collection(step_outputs.RUN_OVER_EPOCHS, 1)  # a graph saves integers
        return EstimatorSpec(self.mode, loss=loss, train_op=hook_graph.step_op, scaffold=scaffold)

    def step(self, batch: Nest) -> tuple[dict[str, Nest], Nest]:
        return self.rename(self._train_step(self._data(batch), self._position())), {}

    def run_step(self, strategy: Strategy, step: Step, batch: Nest) -> tuple[Nest, ...]:
        with self.draws.installed():
            return super().run_step(strategy, step, batch)

    def _parts(self, batch: Nest) -> tuple[Nest, ...]:
        parts = super()._parts(batch)
        if not self.changes:
            return parts
        # Each replica's batch has its own seed, which is the same after a restart.
        seeds = tf.random.split(seed_at(self._position()), len(self.changes))
        for change, seed in zip(self.changes, tf.unstack(seeds), strict=True):
            parts = change(parts, seed)
        return parts

    def update(self, batches: tf.Tensor) -> None:
        if self._accumulated is not None:
            self._accumulated.update(batches)
        if not self.has_epochs:
            self.model.reset_metrics()

    def extra_outputs(self) -> dict[str, tf.Tensor]:
        rate = self.adapter.learning_rate(self.model.optimizer)
        return {} if rate is None else {step_outputs.LEARNING_RATE: rate}

    # Checkpoints have the trained examples. A signal may save one inside a step, whose batches are then read again.

    def add_examples(self, examples: tf.Tensor) -> None:
        counter = self.trained_examples
        if self._accumulated is not None:
            counter = self._accumulated.examples
        counter.assign_add(examples)

    def end_step(self) -> None:
        if self._accumulated is not None:
            self.trained_examples.assign_add(self._accumulated.examples)
            self._accumulated.examples.assign(0)

    def _position(self) -> tf.Tensor:
        position = self.draws.position()
        if self._accumulated is None:
            return position
        return position + self._accumulated.examples * tf.constant([0, 1, 0], tf.int64)

    def reset(self) -> None:
        self.model.reset_metrics()
        if self._accumulated is not None:
            self._accumulated.clear()
            self._accumulated.examples.assign(0)


@dataclasses.dataclass(unsafe_hash=True)
class EvaluationProgram(StepProgram):
    """Runs `model.test_step`. The values cover all examples since `reset`."""

    rename: Callable
    parts: tuple[str, ...] = ()  # the "features", "labels" and "predictions" that metric functions take from each step
    replicas: int = 1

    mode = ModeKeys.EVAL
    keras_step = "test_step"

    def __post_init__(self) -> None:
        own_steps = all(self.adapter.is_own_step(self.model, step) for step in ("test_step", "predict_step"))
        self._gives_predictions = own_steps and "predictions" in self.parts
        step: Callable = self.model.test_step
        if self._gives_predictions:  # one pass through the model for both
            step = functools.partial(self.adapter.test_and_predict, self.model)
        by_xla = self.model.jit_compile and self.replicas == 1  # tf_keras reduces metrics over replicas in the step
        self._test_step = _of_user(step, by_xla)
        self._predict_step = _of_user(self.model.predict_step, by_xla)

    def spec(self, hook_graph: HookGraph, scaffold: Scaffold) -> EstimatorSpec:
        metrics = {name: (value, hook_graph.step_op) for name, value in hook_graph.model_values.items()}
        return EstimatorSpec(self.mode, loss=_loss(hook_graph), eval_metric_ops=metrics, scaffold=scaffold)

    def step(self, batch: Nest) -> tuple[dict[str, Nest], Nest]:
        data = self._data(batch)
        features, labels, *_ = *as_tuple(data), None
        outputs = {"features": features, "labels": labels}
        if self._gives_predictions:
            logs, predictions = self._test_step(data)
            outputs["predictions"] = _by_output_name(self.adapter, self.model, predictions)
        else:
            logs = self._test_step(data)
            if "predictions" in self.parts:
                outputs["predictions"] = predict(self.adapter, self.model, self._predict_step, features)
        return self.rename(logs), {part: outputs[part] for part in self.parts}

    def reset(self) -> None:
        self.model.reset_metrics()
        self.adapter.reset_states(self.model)


@dataclasses.dataclass(unsafe_hash=True)
class PredictionProgram(StepProgram):
    """Runs `model.predict_step`. The values are the predictions for one batch."""

    mode = ModeKeys.PREDICT

    def __post_init__(self) -> None:
        self._predict_step = _of_user(self.model.predict_step, self.model.jit_compile)

    def spec(self, hook_graph: HookGraph, scaffold: Scaffold) -> EstimatorSpec:
        return EstimatorSpec(self.mode, predictions=hook_graph.model_values, scaffold=scaffold)

    def triggers(self, hook_graph: HookGraph) -> list[tf.Tensor | tf.Operation]:
        return list(hook_graph.values.values())

    def step(self, batch: Nest) -> tuple[dict[str, Nest], Nest]:
        features, *_ = self._parts(batch)
        return predict(self.adapter, self.model, self._predict_step, features), {}

    def reset(self) -> None:
        self.adapter.reset_states(self.model)


def _loss(hook_graph: HookGraph) -> tf.Tensor:
    values = hook_graph.model_values
    if not values:
        raise ValueError("train_step and test_step must return at least one value; return the loss.")
    return values.get("loss", next(iter(values.values())))


def _summarize(name: str, value: tf.Tensor) -> None:
    summary = tf.raw_ops.ScalarSummary(tags=name, values=value)
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SUMMARIES, summary)


def predict(adapter: Adapter, model: Model, predict_step: Callable[[Nest], Nest], features: Nest) -> dict[str, Nest]:
    """Returns predictions by output name; a model with one input accepts a dict of one feature, whatever its name."""
    inputs = getattr(model, "inputs", None) or ()  # Keras 3's Sequential has none before it is built
    if isinstance(features, dict) and len(features) == len(inputs) == 1:
        (features,) = features.values()
    return _by_output_name(adapter, model, predict_step((features,)))


def _by_output_name(adapter: Adapter, model: Model, predictions: Nest) -> dict[str, Nest]:
    if isinstance(predictions, dict):
        return predictions
    if not isinstance(predictions, (list, tuple)):
        predictions = [predictions]
    names = adapter.output_names(model) or [f"output_{index}" for index, _ in enumerate(predictions, 1)]
    return dict(zip(names, predictions, strict=True))


def _gradients_by_xla(gradients: Callable) -> Callable:
    def with_masks(data: Nest, position: tf.Tensor) -> tuple[list[tf.Tensor | None], Nest, Nest]:
        found, predictions = gradients(data, position)
        return found, predictions, tf.nest.map_structure(private_keras.mask_of, predictions)

    compiled = _compiled(with_masks, True)

    def call(data: Nest, position: tf.Tensor) -> tuple[list[tf.Tensor | None], Nest]:
        found, predictions, masks = compiled(data, position)
        for prediction, mask in zip(tf.nest.flatten(predictions), tf.nest.flatten(masks), strict=True):
            private_keras.attach_mask(prediction, mask)
        return found, predictions

    return call


def _of_user(step: Callable, jit_compile: bool) -> Callable:
    """Returns a step of the model in the form in which Keras runs it, with the user's code converted by AutoGraph."""
    return _compiled(private_tensorflow.with_autograph(step), jit_compile)


def _compiled(step: Callable, jit_compile: bool) -> Callable:
    if jit_compile:
        return tf.function(step, jit_compile=True, reduce_retracing=True, autograph=False)
    return step
