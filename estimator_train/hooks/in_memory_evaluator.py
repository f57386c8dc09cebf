"""InMemoryEvaluatorHook: evaluates during training without writing a checkpoint to model_dir."""

import uuid
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_train._engine.checkpoints.object_based import ObjectSaver
from estimator_train._engine.types import InputFn, Session, SessionRunContext, SessionRunValues
from estimator_train.estimator import Estimator
from estimator_train.run_config import TaskType

v1 = tf.compat.v1


class InMemoryEvaluatorHook(tf.compat.v1.train.SessionRunHook):
    """Evaluates before the first step, after every `every_n_iter` session runs, and at the end.

    Variables are passed through a checkpoint in memory. Metrics are written to the event files in
    `estimator.eval_dir(name)`.

        >>> evaluator = et.experimental.InMemoryEvaluatorHook(estimator, eval_input_fn, every_n_iter=5)
        >>> train_spec = et.TrainSpec(train_input_fn, max_steps=10, hooks=[evaluator])

    `estimator` is the one being trained; the other arguments are those of its `evaluate`. Raises ValueError if
    `every_n_iter` is not positive, or several processes train.
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: InputFn,
        steps: int | None = None,
        hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ) -> None:
        if every_n_iter is None or every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        config = estimator.config
        if config.task_type == TaskType.PS or config.num_ps_replicas > 0 or config.num_worker_replicas > 1:
            raise ValueError(
                "InMemoryEvaluatorHook supports training in a single process only; a cluster has an evaluator task."
            )
        self._estimator = estimator
        self._evaluation: dict[str, Any] = {"input_fn": input_fn, "steps": steps, "hooks": hooks, "name": name}
        self._every_n_iter = every_n_iter

    def begin(self) -> None:
        self._global_step = v1.train.get_global_step()
        savers = v1.get_collection(v1.GraphKeys.SAVERS)
        if savers and isinstance(savers[0], ObjectSaver):  # of a Keras model
            self._saver = savers[0]
            return
        # The saver used for training cannot be shared: it keeps track of its checkpoints and deletes the oldest.
        saved = [*v1.global_variables(), *v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)]  # mutable tables, too
        self._saver = v1.train.Saver(saved)

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        self._iterations = 0
        self._evaluate(session)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._iterations += 1
        if self._iterations % self._every_n_iter == 0:
            self._evaluate(run_context.session)

    def end(self, session: Session) -> None:
        if self._iterations % self._every_n_iter:
            self._evaluate(session)

    def _evaluate(self, session: Session) -> None:
        directory = f"ram://estimator_train-{uuid.uuid4()}"
        path = f"{directory}/model.ckpt-{session.run(self._global_step)}"
        try:
            if isinstance(self._saver, ObjectSaver):
                self._saver.write(path)
            else:
                self._saver.save(session, path, write_meta_graph=False, write_state=False)
            self._estimator.evaluate(checkpoint_path=path, **self._evaluation)
        finally:
            tf.io.gfile.rmtree(directory)
