"""tf.data.experimental.CheckpointInputPipelineHook, which continues a training in the middle of its data."""

import os
from typing import Any

import tensorflow as tf

from estimator_train._engine.types import Session, SessionRunContext, SessionRunHook, SessionRunValues
from estimator_train.compat.drop_in import private_tensorflow
from estimator_train.estimator import Estimator

v1 = tf.compat.v1


class CheckpointInputPipelineHook(SessionRunHook):
    """Saves the iterators of a model_fn's training beside its checkpoints, and restores them when it is continued.

        estimator.train(input_fn, steps=100, hooks=[tf.data.experimental.CheckpointInputPipelineHook(estimator)])

    The files are `input.ckpt-STEP` in `estimator.model_dir`, saved as often as RunConfig saves checkpoints.
    `external_state_policy` says what to do about a dataset that TensorFlow cannot save wholly, such as one that draws
    random numbers: "fail", the default, "warn" or "ignore".

    Raises ValueError if `external_state_policy` is another, and at the beginning of a training without iterators, such
    as that of a Keras model.
    """

    def __init__(self, estimator: Estimator, external_state_policy: str | None = None) -> None:
        policies = tf.data.experimental.ExternalStatePolicy
        names = [policy.name.lower() for policy in policies]
        if external_state_policy not in (None, *names):
            raise ValueError(f"external_state_policy={external_state_policy!r}: use one of {', '.join(names)}")
        self._policy = policies[(external_state_policy or "fail").upper()]
        config = estimator.config
        self._name = "input"
        if config.num_worker_replicas > 1:
            self._name += f"_{config.task_type}_{config.task_id}"
        self._folder = estimator.model_dir
        self._timer = v1.train.SecondOrStepTimer(config.save_checkpoints_secs, config.save_checkpoints_steps)

    def begin(self) -> None:
        iterators = private_tensorflow.iterators()
        if not iterators:
            raise ValueError(
                "CheckpointInputPipelineHook finds no iterator of a tf.data.Dataset; for a Keras model, or under a "
                "strategy, use estimator_train.RunConfig(resume_input=True)"
            )
        saveables = [private_tensorflow.iterator_saveable(iterator, self._policy) for iterator in iterators]
        self._saver = v1.train.Saver(saveables, sharded=True)
        self._global_step = v1.train.get_global_step()
        self._is_first = True

    def before_run(self, run_context: SessionRunContext) -> Any:
        if self._is_first:  # all hooks' after_create_session have run: one of them initializes the iterators
            self._is_first = False
            self._restore_or_save(run_context.session)
        return v1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._timer.should_trigger_for_step(run_values.results + 1):
            step = int(run_context.session.run(self._global_step))
            if self._timer.should_trigger_for_step(step):
                self._save(run_context.session, step)

    def end(self, session: Session) -> None:
        step = int(session.run(self._global_step))
        if step != self._timer.last_triggered_step():
            self._save(session, step)

    def _restore_or_save(self, session: Session) -> None:
        saved = tf.train.latest_checkpoint(self._folder, self._latest)
        if saved:
            self._saver.restore(session, saved)
        else:
            self._save(session, int(session.run(self._global_step)))

    def _save(self, session: Session, step: int) -> None:
        self._timer.update_last_triggered_step(step)
        self._saver.save(session, os.path.join(self._folder, f"{self._name}.ckpt"), step, self._latest)

    @property
    def _latest(self) -> str:
        return f"checkpoint_{self._name}"
