"""CallbacksHook: runs Keras callbacks while a Keras model trains."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.checkpoints import object_based
from estimator_train._engine.hooks import EpochHook, is_overridden
from estimator_train._engine.keras.adapter_choice import adapter_of, imported_kerases
from estimator_train._engine.keras_forms import refuses_keras_arguments
from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train._engine.types import Session, SessionRunArgs, SessionRunContext, SessionRunValues
from estimator_train.hooks.evaluation_listener import EvaluationListener
from estimator_train.run_config import RunConfig

if TYPE_CHECKING:
    from estimator_train.estimator import Estimator  # loaded with the first Estimator, not the first hook

v1 = tf.compat.v1

_BATCH_METHODS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


class CallbacksHook(EpochHook, EvaluationListener):
    """Calls Keras callbacks on the model being trained, as `fit` does.

    They may set its weights, its optimizer's learning rate and `stop_training`; the change takes effect with the next
    step and the next checkpoint. An epoch ends every `steps_per_epoch` steps or, without a number, at each evaluation
    of `train_and_evaluate`, whose metrics appear in the logs with the prefix `val_`. As in `fit`, the loss and the
    metrics are aggregated from the start of the epoch, also in log lines and summaries. With a number as
    `RunConfig.steps_per_loop`, a call of several steps counts as one batch.

        >>> stop = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)
        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=20, hooks=[et.CallbacksHook([stop])])
        >>> eval_spec = et.EvalSpec(eval_input_fn, steps=None, every_steps=10)
        >>> metrics, exports = et.train_and_evaluate(estimator, train_spec, eval_spec)

    With several EvalSpecs, the first one's logs use the prefix `val_` and the others' use `val_NAME_`. When training
    resumes, the epoch's number follows from the global step, if `steps_per_epoch` is given; an epoch resumed in its
    middle begins again, with the learning rate of the checkpoint.

    Args:
      callbacks: a callback or an iterable of callbacks, from the same Keras (tf_keras or Keras 3) as the model.
      steps_per_epoch: global steps per epoch.
      first_step: global step from which these epochs count; negative if earlier epochs were shorter than these.

    Raises:
      TypeError: one of `callbacks` is not a Keras callback.
      ValueError: `steps_per_epoch` is not positive, or a callback is a BackupAndRestore, which the Estimator's
        checkpoints make redundant. When training begins: the Estimator has a model_fn, or several processes train.
    """

    @refuses_keras_arguments
    def __init__(self, callbacks: Any, steps_per_epoch: int | None = None, *, first_step: int = 0) -> None:
        if steps_per_epoch is not None and steps_per_epoch < 1:
            raise ValueError(f"Must specify steps_per_epoch >= 1, given: {steps_per_epoch}")
        several = isinstance(callbacks, Iterable) and not isinstance(callbacks, str)
        self._given = list(callbacks) if several else [callbacks]
        for callback in self._given:
            if not any(isinstance(callback, keras.callbacks.Callback) for keras in imported_kerases()):
                raise TypeError(f"callbacks must be Keras callbacks, given: {callback!r}")
            if type(callback).__name__ == "BackupAndRestore":
                raise ValueError("BackupAndRestore is not needed: train resumes from the checkpoints in model_dir.")
        self.steps_per_epoch = steps_per_epoch
        self.first_step = first_step
        self._model: Any = None
        self._callbacks: Any = None

    def attach(self, model: Any, reset_metrics: Callable[[], None], config: RunConfig) -> None:
        self._model = model
        self._adapter = adapter_of(model)
        self._reset_metrics = reset_metrics
        saves = config.save_checkpoints_steps or config.save_checkpoints_secs
        self._path = os.path.join(str(config.model_dir), "model.ckpt") if saves else None
        self._callbacks, self._epoch = None, 0

    def begin(self) -> None:
        if self._model is None:
            raise ValueError(
                "CallbacksHook is for training a Keras model; with a model_fn, or in evaluate, use SessionRunHooks."
            )
        self._global_step = v1.train.get_global_step()
        values = v1.get_collection(step_outputs.MODEL_VALUES)
        self._fetches = {"step": self._global_step, "logs": {value.op.name: value for value in values}}
        (self._saver,) = v1.get_collection(v1.GraphKeys.SAVERS)
        self._last_step = next(iter(v1.get_collection(step_outputs.LAST_STEP)), math.inf)

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        self._step = int(session.run(self._global_step))
        if self.steps_per_epoch:
            self._epoch = (self._step - self.first_step) // self.steps_per_epoch
        self._is_in_epoch = False
        self._averaged: list[np.ndarray] = []  # the last epoch's weights, if the optimizer keeps averages of them
        self._logs: dict[str, Any] = {}
        self._metrics: dict[str, Any] = {}
        if self._callbacks is None:  # not None if the session was recreated after an error
            with self._as_in_fit():
                # Of an unknown number of epochs, callbacks learn the last one before it ends.
                epochs: float = math.inf
                if self.steps_per_epoch and self._last_step < math.inf:
                    epochs = math.ceil((self._last_step - self.first_step) / self.steps_per_epoch)
                self._callbacks = self._adapter.callback_list(self._model, self._given, self.steps_per_epoch, epochs)
                self._model.stop_training = False
                self._callbacks.on_train_begin()

    def next_look(self, global_step: int) -> float:
        if any(map(_looks_at_batches, self._given)):
            return global_step + 1
        if self.steps_per_epoch is None:
            return math.inf
        return global_step + self.steps_per_epoch - (global_step - self.first_step) % self.steps_per_epoch

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        with self._as_in_fit():
            if not self._is_in_epoch:
                self._begin_epoch()
            self._callbacks.on_train_batch_begin(self._step - self._first_of_epoch)
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._step = int(run_values.results["step"]) + 1  # fetched with a step, it is the number before the update
        self._logs = run_values.results["logs"]
        with self._as_in_fit():
            self._adapter.count_step(self._model, self._step)
            self._callbacks.on_train_batch_end(self._step - self._first_of_epoch - 1, self._logs)
            if self._is_at_end_of_epoch():
                self._end_epoch(is_last=self._step >= self._last_step)
        if self._model.stop_training:
            run_context.request_stop()

    def after_evaluation(
        self, estimator: Estimator, checkpoint_path: str, eval_result: dict[str, Any], is_final: bool
    ) -> None:
        # Several EvalSpecs may be evaluated before the epoch ends.
        self._metrics |= {name: value for name, value in eval_result.items() if name != "global_step"}

    def end(self, session: Session) -> None:
        resumes_later = getattr(session, "is_interrupted", False) and self._step < self._last_step
        if not resumes_later:
            with self._as_in_fit():
                if self._is_in_epoch and self._step > self._begun_at:
                    self._end_epoch(is_last=True)
                self._callbacks.on_train_end(self._logs)
                if not all(map(np.array_equal, self._averaged, self._model.get_weights())):
                    # Evaluation takes the averages, which would not show the weights that a callback has restored.
                    object_based.restart_averages(self._adapter.saved_parts(self._model))
        if self._path is not None:
            # The last checkpoint was saved before the callbacks ran, and they may have changed weights since.
            object_based.wait_for(self._saver)
            self._saver.save(session, self._path, global_step=self._step)

    def _begin_epoch(self) -> None:
        self._is_in_epoch, self._begun_at = True, self._step  # training may resume in the middle of an epoch
        self._first_of_epoch = self._step
        if self.steps_per_epoch:
            self._first_of_epoch = self.first_step + self._epoch * self.steps_per_epoch
        self._reset_metrics()
        resumes = self._step > self._first_of_epoch
        rate = self._learning_rate() if resumes else None
        self._callbacks.on_epoch_begin(self._epoch)
        # The rate of a checkpoint inside this epoch is set already: a schedule that multiplies it would do so twice.
        if resumes and self._learning_rate() != rate:
            self._model.optimizer.learning_rate = rate

    def _is_at_end_of_epoch(self) -> bool:
        if self.steps_per_epoch:
            return (self._step - self.first_step) % self.steps_per_epoch == 0
        return bool(self._metrics)

    def _learning_rate(self) -> float | None:
        rate = self._adapter.learning_rate(self._model.optimizer)
        return None if rate is None else float(rate)

    def _end_epoch(self, is_last: bool) -> None:
        if object_based.keeps_averages(self._model.optimizer):
            self._averaged = self._model.get_weights()
        if is_last:
            self._callbacks.set_params(self._callbacks.params | {"epochs": self._epoch + 1})
        if self._metrics:
            self._callbacks.on_test_begin()
            self._callbacks.on_test_end(self._metrics)
            self._logs |= {f"val_{name}": value for name, value in self._metrics.items()}
        self._callbacks.on_epoch_end(self._epoch, self._logs)
        self._epoch += 1
        self._is_in_epoch, self._metrics = False, {}

    @contextlib.contextmanager
    def _as_in_fit(self) -> Iterator[None]:
        with eager_mode(), self._model.distribute_strategy.scope():
            yield


def _looks_at_batches(callback: Any) -> bool:
    bases = (keras.callbacks.Callback for keras in imported_kerases())
    (base,) = (base for base in bases if isinstance(callback, base))
    if getattr(callback, "save_freq", None) == "epoch":  # a ModelCheckpoint does nothing at batches then
        (base,) = (kind for kind in type(callback).__mro__ if kind.__name__ == "ModelCheckpoint")
    return any(is_overridden(callback, name, base) for name in _BATCH_METHODS)
