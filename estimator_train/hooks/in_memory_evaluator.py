"""InMemoryEvaluatorHook: evaluation in the middle of training, without a checkpoint in model_dir."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import tensorflow as tf

from estimator_train.checkpoints.object_based import ObjectSaver
from estimator_train.estimator import Estimator
from estimator_train.model_fn import InputFn
from estimator_train.run_config import TaskType

v1 = tf.compat.v1


class InMemoryEvaluatorHook(tf.compat.v1.train.SessionRunHook):
    """Evaluates before the first step, after every `every_n_iter`-th and at the end.

    The variables go by a checkpoint in memory; the metrics go to the events of `estimator.eval_dir(name)`.

    Args:
      estimator: the `Estimator` that is trained.
      input_fn, steps, hooks, name: as for `Estimator.evaluate`.
      every_n_iter: runs of the training session from one evaluation to the next.

    Raises:
      ValueError: `every_n_iter` is not positive, or this is one of several processes that train.
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
                "InMemoryEvaluatorHook evaluates in the one process that trains; a cluster has an evaluator."
            )
        self._estimator = estimator
        self._evaluation = {"input_fn": input_fn, "steps": steps, "hooks": hooks, "name": name}
        self._every_n_iter = every_n_iter

    def begin(self) -> None:
        self._global_step = v1.train.get_global_step()
        savers = v1.get_collection(v1.GraphKeys.SAVERS)
        is_keras = bool(savers) and isinstance(savers[0], ObjectSaver)
        # A saver of its own: the training's counts what it writes, and deletes the oldest.
        self._saver = savers[0] if is_keras else v1.train.Saver(v1.global_variables())

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        self._iterations = 0
        self._evaluate(session)

    def after_run(
        self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
    ) -> None:
        self._iterations += 1
        if self._iterations % self._every_n_iter == 0:
            self._evaluate(run_context.session)

    def end(self, session: tf.compat.v1.Session) -> None:
        if self._iterations % self._every_n_iter:
            self._evaluate(session)

    def _evaluate(self, session):
        folder = f"ram://estimator_train-{uuid.uuid4()}"
        path = f"{folder}/model.ckpt-{session.run(self._global_step)}"
        try:
            if isinstance(self._saver, ObjectSaver):
                self._saver.write(path)
            else:
                self._saver.save(session, path, write_meta_graph=False, write_state=False)
            self._estimator.evaluate(checkpoint_path=path, **self._evaluation)
        finally:
            tf.io.gfile.rmtree(folder)
