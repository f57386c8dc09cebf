"""Defines one step of a Keras model in each mode, as in Keras' fit, evaluate and predict."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_train._engine.keras import private_tensorflow
from estimator_train._engine.keras.accumulation import AccumulatedGradients
from estimator_train._engine.keras.adapter import Adapter
from estimator_train._engine.keras.step_draws import StepDraws, seed_at
from estimator_train._engine.model_fn import ModeKeys
from estimator_train._engine.session import step_outputs


class StepProgram:
    """Defines what a `loop.Loop` does with each batch. `KerasModel.prepare` chooses one for each run.

    Programs compare equal if their fields do, and a run with an equal program reuses its compiled loop. Create them
    outside of any trace: the loop is traced without AutoGraph, which must be on when a model's step is compiled.

    Attributes:
      adapter: the adapter for the model's Keras; see `adapter.Adapter`.
      model: the Keras model.
      preprocess: function that each replica first applies to the features of a batch, or None.
      keras_step: the name of the model's step that computes its compiled loss, or None.
      batches_per_step: batches that a step takes on each replica; `update` ends a step of several batches.
    """

    keras_step: str | None = None
    batches_per_step = 1

    def build_variables(self, strategy, element_spec):
        """Creates variables before the first step, because tf.function traces a function that creates variables twice.

        `element_spec`: the `tf.TypeSpec` of the batches of all replicas.
        """

    def step(self, batch):
        """Runs one step on a replica with its batch; every program implements it.

        Returns (a dict of value names to tensors, any structure of tensors with one entry per example).
        """
        raise NotImplementedError

    def run_step(self, strategy, step, batch):
        """Runs `step` on every replica; see `run_step` of the adapters."""
        return self.adapter.run_step(self.model, strategy, step, batch)

    def update(self, batches):
        """Runs on each replica at the end of a step of several batches; there was data for `batches` of them."""

    def extra_outputs(self):
        """Returns a dict of names to additional values of the last step, which are the same on every replica."""
        return {}

    def add_examples(self, examples):
        """Counts the examples of a batch of all replicas, an int64 scalar, once they have been taken."""

    def reset(self):
        """Resets accumulated state, such as metrics, before a run."""

    def _data(self, batch):
        """Returns the batch in Keras' form: (features[, labels[, sample weights]]), or only the features."""
        parts = self._parts(batch)
        needs_labels = self.keras_step and self.adapter.is_own_step(self.model, self.keras_step)
        if needs_labels and len(parts) < 2 and getattr(self.model, "loss", None):
            raise ValueError(
                f"Target data is missing: the model was compiled with loss={self.model.loss}, but the input_fn gives "
                "features only; let it give (features, labels)."
            )
        return parts if isinstance(batch, tuple) or len(parts) > 1 else parts[0]

    def _parts(self, batch):
        """Returns a tuple of the features and, if present, the labels and sample weights.

        In tf.estimator, sample weights were part of the features.
        """
        features, *rest = batch if isinstance(batch, tuple) else (batch,)
        if self.preprocess is not None:
            features = self.preprocess(features)
        if isinstance(features, dict) and features.keys() == {"features", "sample_weights"} and len(rest) < 2:
            return features["features"], *rest, features["sample_weights"]
        return (features, *rest)


@dataclasses.dataclass(unsafe_hash=True)
class TrainingProgram(StepProgram):
    """Runs `model.train_step`. Values are aggregated over all replicas, for the last step or since the epoch began.

    Attributes:
      rename: function that maps the logs of the model's step to the names that hooks see.
      trained_examples: an int64 variable that counts the examples of all replicas.
      draws: the random numbers of the step's layers and changes.
      accumulate_steps: batches per replica whose mean gradient makes one update.
      has_epochs: whether the model's metrics accumulate over steps until an `EpochHook` resets them.
      changes: functions that each replica applies to a batch after `preprocess`; see `protocols.ChangesTraining`.
    """

    adapter: Adapter
    model: Any
    preprocess: Callable | None
    rename: Callable
    trained_examples: tf.Variable = dataclasses.field(compare=False)
    draws: StepDraws = dataclasses.field(compare=False)
    jit_compile: bool = False
    accumulate_steps: int = 1
    has_epochs: bool = False
    changes: tuple[Callable, ...] = ()

    mode = ModeKeys.TRAIN
    keras_step = "train_step"

    def __post_init__(self):
        self._accumulated = AccumulatedGradients(self.adapter, self.model) if self.accumulate_steps > 1 else None
        step = self.model.train_step if self._accumulated is None else self._accumulated.step

        def begun_step(data, position):
            self.draws.begin(position)
            return step(data)

        self._train_step = _compiled(begun_step, self.jit_compile or self.model.jit_compile)

    @property
    def batches_per_step(self):
        return self.accumulate_steps

    def build_variables(self, strategy, element_spec):
        self.adapter.build_variables(self.model, strategy, element_spec, self._data, self.keras_step)

    def step(self, batch):
        if self._accumulated is None and not self.has_epochs:
            self.model.reset_metrics()  # otherwise the values would be running means
        return self.rename(self._train_step(self._data(batch), self.draws.position())), {}

    def run_step(self, strategy, step, batch):
        with self.draws.installed():
            return super().run_step(strategy, step, batch)

    def _parts(self, batch):
        parts = super()._parts(batch)
        if not self.changes:
            return parts
        # Each replica's batch has its own seed, which is the same after a restart.
        seeds = tf.random.split(seed_at(self.draws.position()), len(self.changes))
        for change, seed in zip(self.changes, tf.unstack(seeds), strict=True):
            parts = change(parts, seed)
        return parts

    def update(self, batches):
        self._accumulated.update(batches)
        if not self.has_epochs:
            self.model.reset_metrics()

    def extra_outputs(self):
        rate = self.adapter.learning_rate(self.model.optimizer)
        return {} if rate is None else {step_outputs.LEARNING_RATE: rate}

    def add_examples(self, examples):
        self.trained_examples.assign_add(examples)

    def reset(self):
        self.model.reset_metrics()
        if self._accumulated is not None:
            self._accumulated.clear()


@dataclasses.dataclass(unsafe_hash=True)
class EvaluationProgram(StepProgram):
    """Runs `model.test_step`. The values cover all examples since `reset`.

    Attributes:
      rename: see `TrainingProgram`.
      parts: which of "features", "labels" and "predictions" metric functions take; each step returns them.
    """

    adapter: Adapter
    model: Any
    preprocess: Callable | None
    rename: Callable
    parts: tuple[str, ...] = ()

    mode = ModeKeys.EVAL
    keras_step = "test_step"

    def __post_init__(self):
        own_steps = all(self.adapter.is_own_step(self.model, step) for step in ("test_step", "predict_step"))
        self._gives_predictions = own_steps and "predictions" in self.parts
        step = self.model.test_step
        if self._gives_predictions:  # one pass through the model for both
            step = functools.partial(self.adapter.test_and_predict, self.model)
        self._test_step = _compiled(step, self.model.jit_compile)
        self._predict_step = _compiled(self.model.predict_step, self.model.jit_compile)

    def build_variables(self, strategy, element_spec):
        self.adapter.build_variables(self.model, strategy, element_spec, self._data, self.keras_step)

    def step(self, batch):
        data = self._data(batch)
        features, *rest = data if isinstance(data, tuple) else (data,)
        outputs = {"features": features, "labels": rest[0] if rest else None}
        if self._gives_predictions:
            logs, predictions = self._test_step(data)
            outputs["predictions"] = _by_output_name(self.adapter, self.model, predictions)
        else:
            logs = self._test_step(data)
            if "predictions" in self.parts:
                outputs["predictions"] = predict(self.adapter, self.model, self._predict_step, features)
        return self.rename(logs), {part: outputs[part] for part in self.parts}

    def reset(self):
        self.model.reset_metrics()
        self.adapter.reset_states(self.model)


@dataclasses.dataclass(unsafe_hash=True)
class PredictionProgram(StepProgram):
    """Runs `model.predict_step`. The values are the predictions for one batch."""

    adapter: Adapter
    model: Any
    preprocess: Callable | None

    mode = ModeKeys.PREDICT

    def __post_init__(self):
        self._predict_step = _compiled(self.model.predict_step, self.model.jit_compile)

    def step(self, batch):
        features, *_ = self._parts(batch)
        return predict(self.adapter, self.model, self._predict_step, features), {}

    def reset(self):
        self.adapter.reset_states(self.model)


def predict(adapter, model, predict_step, features):
    """Returns the predictions of `predict_step` for a batch of features, a dict of output names to tensors.

    A model with one input accepts a dict of one feature, whatever its name.
    """
    inputs = getattr(model, "inputs", None) or ()  # Keras 3's Sequential has none before it is built
    if isinstance(features, dict) and len(features) == len(inputs) == 1:
        (features,) = features.values()
    return _by_output_name(adapter, model, predict_step((features,)))


def _by_output_name(adapter, model, predictions):
    if isinstance(predictions, dict):
        return predictions
    predictions = list(predictions) if isinstance(predictions, (list, tuple)) else [predictions]
    names = adapter.output_names(model) or [f"output_{index}" for index, _ in enumerate(predictions, 1)]
    return dict(zip(names, predictions, strict=True))


def _compiled(step, jit_compile):
    """Returns a step of the model in the form in which Keras runs it, with the user's code converted by AutoGraph."""
    if jit_compile:
        return tf.function(step, jit_compile=True, reduce_retracing=True)
    return private_tensorflow.with_autograph(step)
