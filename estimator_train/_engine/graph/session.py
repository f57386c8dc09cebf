"""Opens sessions on a model_fn's graph and restores its checkpoints."""

import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_train._engine import checkpoints
from estimator_train._engine.graph import private_tensorflow
from estimator_train._engine.graph.looped_steps import LoopedSteps
from estimator_train._engine.host import dataset_iterators
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session.fetches import MadeOfFetches, map_fetches
from estimator_train._engine.types import Scaffold, Session

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True, eq=False)
class GraphSessionCreator(tf.compat.v1.train.SessionCreator):
    """Opens sessions restored from the checkpoint `path`, or with `resumes` from the newest; workers wait."""

    scaffold: Scaffold
    config: RunConfig
    path: str | None
    resumes: bool = False
    steps: LoopedSteps | None = None  # of the graph, if it has any

    def create_session(self) -> Session:
        if self.resumes and not self.config.is_chief:
            return self._wait_for_chief()
        path, master, config = self.path, self.config.evaluation_master, self.config.session_config
        if self.resumes:
            path, master = checkpoints.latest_intact(self.config.model_dir), self.config.master
        session = v1.train.ChiefSessionCreator(
            self.scaffold, master=master, config=config, checkpoint_filename_with_path=path
        ).create_session()
        if self.resumes and path is not None:
            state = tf.train.get_checkpoint_state(self.config.model_dir)
            self.scaffold.saver.recover_last_checkpoints(state.all_model_checkpoint_paths)  # it deletes old ones
        if not master:
            session.__class__ = _LocalSession  # SessionManager creates a tf.compat.v1.Session
            session.look_up_once()
            if self.steps is not None:
                self.steps.start(has_run_steps=self.scaffold.init_fn is not None)
                session.steps = self.steps
        return session

    def _wait_for_chief(self) -> Session:
        scaffold = self.scaffold.finalize()
        manager = v1.train.SessionManager(
            local_init_op=scaffold.local_init_op,
            ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            local_init_feed_dict=scaffold.local_init_feed_dict,
            recovery_wait_secs=1,  # poll every second; the default, and WorkerSessionCreator's, is 30
        )
        timeout = self.config.session_creation_timeout_secs
        return manager.wait_for_session(self.config.master, self.config.session_config, timeout)


class _LocalSession(tf.compat.v1.Session):
    """A session that may run many steps in a call; its `close`, which deletes iterators, continues in a thread."""

    steps: LoopedSteps | None = None
    _closed_event: threading.Event | None = None
    _calls: MadeOfFetches[Callable[..., list[Any]]] | None = None  # until it is closed

    def look_up_once(self) -> None:
        """Lets `run` look up the ops of fetches once, as TensorFlow does again in each step."""
        self._calls = MadeOfFetches(self._call)

    def run(
        self,
        fetches: Any,
        feed_dict: dict[Any, Any] | None = None,
        options: tf.compat.v1.RunOptions | None = None,
        run_metadata: tf.compat.v1.RunMetadata | None = None,
    ) -> Any:
        if self.steps is None:
            return self._run_once(fetches, feed_dict, options, run_metadata)
        return self.steps.run(self._run_once, fetches, feed_dict, options, run_metadata)

    def _run_once(
        self,
        fetches: Any,
        feed_dict: dict[Any, Any] | None = None,
        options: tf.compat.v1.RunOptions | None = None,
        run_metadata: tf.compat.v1.RunMetadata | None = None,
    ) -> Any:
        if feed_dict or self._calls is None:
            return super().run(fetches, feed_dict, options, run_metadata)
        call = self._calls(fetches)
        try:
            values = iter(call(options=options, run_metadata=run_metadata))
        except tf.errors.OutOfRangeError:  # the end of the data
            raise
        except tf.errors.OpError as error:
            raise private_tensorflow.located(error, self) from error
        return map_fetches(lambda _: next(values), fetches)

    def _call(self, leaves: list[Any]) -> Callable[..., list[Any]]:
        if not leaves:  # TensorFlow's session would not run
            return lambda **_: []
        return self.make_callable(leaves, accept_options=True)

    def close(self) -> None:
        self._close()

    def __del__(self) -> None:
        # The garbage collector may delete a session that is still closing in the thread, for example the one of a
        # half-read predict. TensorFlow would free what the thread uses, and abort the process.
        closed = self._close()
        if closed.is_set():
            super().__del__()
        else:
            dataset_iterators.in_background(functools.partial(self._delete_after, closed))

    def _close(self) -> threading.Event:
        """Begins to close the session, once; returns the event that is set when it is closed."""
        if self._closed_event is None:
            self._closed_event = threading.Event()
            self._calls = None  # they refer to the session
            dataset_iterators.in_background(functools.partial(self._close_now, self._closed_event))
        return self._closed_event

    def _close_now(self, closed: threading.Event) -> None:
        try:
            super().close()
        finally:
            closed.set()

    def _delete_after(self, closed: threading.Event) -> None:
        closed.wait()
        super().__del__()
