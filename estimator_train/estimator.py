"""Estimator: trains, evaluates and predicts from checkpoints on disk, with one MonitoredSession loop for all models."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from estimator_train._engine import checkpoints
from estimator_train._engine.checkpoints import object_based
from estimator_train._engine.checkpoints.saver_hook import give_save, saving_on_interrupt
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.errors import explaining_errors
from estimator_train._engine.events import write_eval_metrics
from estimator_train._engine.exports.directories import new_export_directory
from estimator_train._engine.exports.receivers import InputReceiver
from estimator_train._engine.graph.model import GraphModel
from estimator_train._engine.graph.warm_start import WarmStartSettings
from estimator_train._engine.hooks import check_hooks, check_listeners
from estimator_train._engine.host import host_memory, leftovers, model_dirs, notebook, time_spent
from estimator_train._engine.host.html_table import html_table
from estimator_train._engine.host.interruption import interruption
from estimator_train._engine.host.suspended_generators import closed_at_exit
from estimator_train._engine.host.training_lock import training_lock
from estimator_train._engine.keras.adapter_choice import imported_kerases
from estimator_train._engine.keras_forms import MEMBERS, check_input_fn, is_path, refuses_keras_arguments
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys, ModelFn, PreparedModel, Run, Start
from estimator_train._engine.run_config import RunConfig, TaskType, default_session_config, use_gpu_options
from estimator_train._engine.session import step_outputs, write_graph
from estimator_train._engine.session.predictor import Predictor
from estimator_train._engine.training_hooks import EvalProgressHook, training_hooks
from estimator_train._engine.types import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    InputFn,
    Nest,
    Params,
    SessionRunHook,
)

v1 = tf.compat.v1
log = tf.get_logger()


class Estimator:
    """Trains, evaluates, predicts with and exports a model whose checkpoints are in one directory.

    Subclasses may add members, but may override only `model_fn`, `latest_checkpoint` and `predictor`.

        >>> def model_fn(features, labels, mode, params):
        ...     predictions = features["x"] * tf.compat.v1.get_variable("slope", [])
        ...     if mode == et.ModeKeys.PREDICT:
        ...         return et.EstimatorSpec(mode, predictions=predictions)
        ...     loss = tf.compat.v1.losses.mean_squared_error(labels, predictions)
        ...     optimizer = tf.compat.v1.train.GradientDescentOptimizer(params["learning_rate"])
        ...     train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
        ...     return et.EstimatorSpec(mode, loss=loss, train_op=train_op)
        >>> def input_fn():
        ...     x = tf.constant([[0.0], [1.0], [2.0]])
        ...     return tf.data.Dataset.from_tensors(({"x": x}, 2 * x))
        >>> estimator = et.Estimator(model_fn, "runs/line", params={"learning_rate": 0.2})
        >>> estimator = estimator.train(lambda: input_fn().repeat(), max_steps=100)
        >>> bool(estimator.evaluate(input_fn)["loss"] < 0.01)
        True
        >>> len(list(estimator.predict(input_fn)))
        3

    Args:
      model_fn: a function `(features, labels, mode, params, config)` that returns an `EstimatorSpec`. It may leave out
        arguments that it does not need. Each train, evaluate and predict calls it once, in a new v1 graph. For a Keras
        model, use `model_to_estimator` instead.
      model_dir: directory of checkpoints and event files. None or "" means `config.model_dir` or, if that is not set, a
        new temporary directory. Later calls of os.chdir do not matter.
      config: a `RunConfig`; None means the defaults.
      params: dict passed to model_fn, and to each input_fn that has an argument `params`.
      warm_start_from: initial values of a model_fn's variables while model_dir has no checkpoint: a
        `WarmStartSettings`, or the path of a checkpoint or SavedModel. A path initializes all variables of the model,
        but neither the optimizer's nor the global step.

    Raises:
      ValueError: If `config` is not a RunConfig or names another directory than `model_dir`, the path contains a glob
        character such as [, model_fn has unknown arguments or lacks `params`, or a subclass overrides other members.
      TypeError: If `model_fn` is a Keras model.
    """

    def __init__(
        self,
        model_fn: ModelFn | PreparedModel,
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: dict[str, Any] | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        type(self)._assert_members_are_not_overridden(self)
        _refuse_overrides(type(self), _UNCALLED)
        host_memory.keep_freed_memory()
        write_graph.work_with_protobuf_7()
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        if any(isinstance(model_fn, keras.Model) for keras in imported_kerases()):
            raise TypeError(f"model_fn must be a function, given: {model_fn!r}; pass it to model_to_estimator.")
        self._config = _config_with_model_dir(config, model_dir)
        self._model_dir_as_given = os.fspath(model_dir or (config and config.model_dir) or self._config.model_dir)
        self._params = copy.deepcopy(params or {})
        if not isinstance(model_fn, PreparedModel):
            if is_path(model_fn):
                raise TypeError(
                    f"model_fn must be a function, given: {model_fn!r}; pass the path of a saved Keras model to "
                    "model_to_estimator, as keras_model_path."
                )
            model_fn = GraphModel(model_fn, params, warm_start_from)
        self._model = model_fn
        log.info("Using config: %s", vars(self._config))
        if self._config.deterministic:
            _make_deterministic(self._config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model_dir={self.model_dir!r})"

    def _repr_html_(self) -> str:
        newest = os.path.basename(self.latest_checkpoint() or "none")
        return html_table(repr(self), {"newest checkpoint": newest, "config": self.config})

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and event files, as it was given; absolute after a call of os.chdir."""
        given, absolute = self._model_dir_as_given, self._config.model_dir
        return given if model_dirs.absolute(given) == absolute else absolute

    @property
    def config(self) -> RunConfig:
        """A deep copy of the `RunConfig`, which shares its strategies, with the `model_dir` above."""
        return self._config.replace(model_dir=self.model_dir)

    @property
    def params(self) -> dict[str, Any]:
        """A deep copy of the params."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> ModelFn:
        """The model_fn as a function of (features, labels, mode, config), with the params bound."""

        def model_fn(features: Nest, labels: Nest, mode: str, config: RunConfig) -> EstimatorSpec:
            if not isinstance(self._model, GraphModel):
                raise ValueError("The Estimator of a Keras model has no model_fn to call; call the Keras model itself.")
            return self._model.call(features, labels, mode, config, self.params)

        return model_fn

    def eval_dir(self, name: str | None = None) -> str:
        """Returns the directory of the event files that evaluations called `name` write."""
        return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

    def latest_checkpoint(self) -> str | None:
        """Returns the path prefix of the newest intact checkpoint in `model_dir`, or None."""
        return checkpoints.latest_intact(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """Returns the names of all variables in the newest checkpoint, as the checkpoint spells them."""
        return sorted(checkpoints.reader_of(self._trained_checkpoint()).get_variable_to_shape_map())

    def get_variable_value(self, name: str) -> np.ndarray | np.generic:
        """Returns the value of a variable in the newest checkpoint; "global_step" works for every kind of model.

        The name may end with ":0", as variables and tensors spell it.
        """
        path = self._trained_checkpoint()
        name = name.removesuffix(":0")
        if name == "global_step":
            return np.int64(checkpoints.read_global_step(path))
        return checkpoints.reader_of(path).get_tensor(name)

    @refuses_keras_arguments
    def train(
        self,
        input_fn: InputFn,
        hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        steps: float | None = None,
        max_steps: float | None = None,
        saving_listeners: Iterable[tf.compat.v1.train.CheckpointSaverListener] | None = None,
    ) -> Estimator:
        """Trains, starting from the newest checkpoint.

        Without `steps` and `max_steps`, training continues until the data ends. Fractions are rounded up: 12.5 steps
        mean 13.

        Args:
          input_fn: a function that returns a `tf.data.Dataset` of (features, labels) or (features, labels, sample
            weights) batches; the batch size is per replica. It may have arguments `mode`, `params`, `config` and
            `input_context`.
          hooks: list of `SessionRunHook`.
          steps: number of steps to train from here: two calls train twice as many. Excludes `max_steps`.
          max_steps: the global step to stop at.
          saving_listeners: list of `CheckpointSaverListener`.

        Returns:
          The estimator itself.

        Raises:
          ValueError: If `steps` or `max_steps` is not positive, both are given, there are listeners but no checkpoints
            are saved, model_dir is damaged, or this task of a cluster does not train.
          TypeError: If `input_fn` is not callable, or a hook or listener has the wrong type.
          NanLossDuringTrainingError: If the loss becomes NaN.
          ModelDirInUseError: If another training is running in model_dir.
        """
        check_input_fn(input_fn)
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        steps, max_steps = _whole("steps", steps), _whole("max_steps", max_steps)
        self._check_trains_here()
        hooks = check_hooks(hooks)
        message = "saving_listeners must be a list of CheckpointSaverListener"
        listeners = check_listeners(saving_listeners, tf.compat.v1.train.CheckpointSaverListener, message)

        alone: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if self._config.is_chief:
            alone = training_lock(self._config.model_dir)
        explaining = explaining_errors(self._config.model_dir, self._config.train_distribute)
        with explaining, alone, notebook.without_progress_lines(hooks):
            self._train_alone(input_fn, hooks, listeners, steps, max_steps)
        return self

    def _check_trains_here(self) -> None:
        if self._config.task_type in (TaskType.EVALUATOR, TaskType.PS):
            raise ValueError(
                "Train has been called wrong configuration: task_type "
                f"{self._config.task_type} does not train; use train_and_evaluate in every task of a cluster."
            )
        strategy = self._config.train_distribute
        if self._config._distribute_coordinator_mode is not None and not synchronous.spans_workers(strategy):
            raise ValueError(
                f"TF_CONFIG names a cluster, but {strategy!r} would train in this process alone, in the same model_dir "
                "as the other tasks. Unset TF_CONFIG, or train a Keras model with MultiWorkerMirroredStrategy, or a "
                "model_fn with parameter servers and without train_distribute."
            )

    @time_spent.training()
    def _train_alone(
        self,
        input_fn: InputFn,
        hooks: Sequence[SessionRunHook],
        listeners: Sequence[CheckpointSaverListener],
        steps: int | None,
        max_steps: int | None,
    ) -> None:
        if self._config.is_chief:
            leftovers.remove(self._config.model_dir)
        checkpoint = self._newest_checkpoint()
        step = checkpoints.read_global_step(checkpoint) if checkpoint else 0
        if max_steps is not None and step >= max_steps:
            log.info("Skipping training since max_steps has already saved.")
            return
        last_step = step + steps if steps is not None else max_steps
        if self._config.is_chief:
            checkpoints.recover_state(self._config.model_dir, self._config.keep_checkpoint_max)

        run = self._prepare(ModeKeys.TRAIN, input_fn, checkpoint, last_step, hooks)
        with contextlib.closing(run), run.as_default():
            if last_step is not None:
                v1.add_to_collection(step_outputs.LAST_STEP, last_step)
            hooks = training_hooks(run, self._config, hooks, listeners, (steps, max_steps))
            loss = self._run_steps(run, hooks)
        if loss is None:
            log.warning("Training made no step: the input_fn gave no data, or a hook stopped it before the first step.")
        log.info("Loss for final step: %s.", loss)

    def _run_steps(self, run: Run, hooks: Sequence[SessionRunHook]) -> Any:
        """Trains until a hook stops it or the data ends; returns the loss of the last step, or None without a step."""
        savers: list[CheckpointSaverHook] = []
        deferral: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if run.agreement is not None:  # workers can only save together
            deferral = interruption.deferred()
        elif self._config.is_chief:
            savers += [hook for hook in hooks if isinstance(hook, v1.train.CheckpointSaverHook)]
        give_save(hooks, savers, run.spec.scaffold)
        loss = None
        try:
            with (
                deferral,
                v1.train.MonitoredSession(run.session_creator, hooks) as session,
                saving_on_interrupt(session, savers),
            ):
                while not session.should_stop():
                    _, loss = session.run([run.spec.train_op, run.spec.loss])
        finally:
            object_based.wait_for(run.spec.scaffold.saver)
        return loss

    @refuses_keras_arguments
    def evaluate(
        self,
        input_fn: InputFn,
        steps: float | None = None,
        hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates a checkpoint, counting every example exactly once.

        Args:
          input_fn: as for `train`; it gives one epoch of data, or any amount if `steps` is given.
          steps: number of batches; None means until the data ends.
          hooks: list of `SessionRunHook`.
          checkpoint_path: path prefix of the checkpoint; None means the newest. If there is none, the initial weights
            are evaluated.
          name: name of the evaluation; its event files go to `eval_dir(name)`.

        Returns:
          A dict of metric names and `global_step` to numpy scalars. It includes `loss`, unless the model overrides
          `test_step` and leaves it out.

        Raises:
          ValueError: If `steps` is not positive, there is no data, or the checkpoint does not fit the model.
          TypeError: If `input_fn` is not callable, or a hook has the wrong type.
        """
        check_input_fn(input_fn)
        steps = _whole("steps", steps)
        hooks = check_hooks(hooks)
        with time_spent.counted_as(time_spent.EVALUATION):
            checkpoint = checkpoint_path or self._newest_checkpoint()
            if checkpoint is None:
                log.info(
                    "Could not find trained model in model_dir: %s, running initialization to evaluate.", self.model_dir
                )
            run = self._prepare(ModeKeys.EVAL, input_fn, checkpoint, steps, hooks)
            with contextlib.closing(run), explaining_errors(self._config.model_dir), run.as_default():
                metrics = _metrics_of(run, steps, hooks)
                write_eval_metrics(self.eval_dir(name), metrics, checkpoint)
        return metrics

    @refuses_keras_arguments
    def predict(
        self,
        input_fn: InputFn,
        predict_keys: str | Iterable[str] | None = None,
        hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Generator[dict[Any, np.ndarray], None, None]:
        """Returns a generator of predictions; nothing runs until the first one is requested.

        Several generators may be read in turn. Between two predictions, the caller's eager mode or default graph is
        untouched.

        Args:
          input_fn: as for `train`; labels are dropped.
          predict_keys: the prediction key to return, or a list of them; None or an empty one means all.
          hooks, checkpoint_path: as for `evaluate`.
          yield_single_examples: whether to yield one dict per example rather than one per batch.

        Yields:
          Dicts of prediction keys to numpy arrays, or arrays if a model_fn's predictions are one tensor.

        Raises:
          ValueError: If the model has none of `predict_keys`, or its predictions cannot be divided into examples,
            because they are scalars or differ in batch size.
          TypeError: If `input_fn` is not callable, or a hook has the wrong type.
        """
        return closed_at_exit(self._predictions(input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples))

    def _predictions(
        self,
        input_fn: InputFn,
        predict_keys: str | Iterable[str] | None,
        hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None,
        checkpoint_path: str | None,
        yield_single_examples: bool,
    ) -> Generator[dict[Any, np.ndarray], None, None]:
        check_input_fn(input_fn)
        hooks = check_hooks(hooks)
        checkpoint = checkpoint_path or self._newest_checkpoint()
        if checkpoint is None:
            log.info(
                "Could not find trained model in model_dir: %s, running initialization to predict.", self.model_dir
            )
        run = self._prepare(ModeKeys.PREDICT, input_fn, checkpoint, None, hooks)
        with contextlib.closing(run):
            predictions = _select(run.spec.predictions, predict_keys)
            hooks = [*run.input_hooks, *hooks, *run.spec.prediction_hooks]
            with _suspendable_session(run, hooks) as session:
                while not session.should_stop():
                    with explaining_errors(self._config.model_dir), run.as_default():
                        batch = session.run(predictions)
                    yield from _examples(batch) if yield_single_examples else [batch]

    def predictor(
        self, *, predict_keys: str | Iterable[str] | None = None, checkpoint_path: str | None = None
    ) -> Predictor:
        """Loads a checkpoint once, to serve predictions for a few examples at a time.

        ```python
        predict = estimator.predictor()
        print(predict({"x": x[:1]}))
        ```

        Replaces `tf.contrib.predictor.from_estimator`. The features go straight to the model: the caller does any
        preprocessing that an input_fn or a serving_input_receiver_fn would do.

        Args:
          predict_keys, checkpoint_path: as for `predict`; the newest checkpoint is loaded even if a
            `BestCheckpointExporter` keeps a better one.

        Returns:
          A `Predictor`, which is called with a batch of features. It never reloads a checkpoint; one that does not fit
          the model raises ValueError, for a model_fn in the first call.
        """
        checkpoint = checkpoint_path or self._newest_checkpoint()
        select = functools.partial(_select, keys=predict_keys)
        start = self._start(self._params_in(ModeKeys.PREDICT), checkpoint)
        return Predictor(self._model.predict_functions(start, select), checkpoint)

    def export_saved_model(
        self,
        export_dir_base: str | os.PathLike[str],
        serving_input_receiver_fn: Callable[[], InputReceiver],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Writes a SavedModel for serving, tagged "serve".

        ```python
        receiver_fn = et.export.build_raw_serving_input_receiver_fn({"x": tf.ones([1, 2])})
        path = estimator.export_saved_model("exported", receiver_fn)
        served = tf.saved_model.load(path).signatures["serving_default"]
        ```

        Args:
          export_dir_base: directory in which to create the SavedModel's directory, whose name is the time in Unix
            seconds.
          serving_input_receiver_fn: function without arguments that returns an `export.ServingInputReceiver`. The
            default signature of most heads takes serialized tf.Examples, for which there is
            `export.build_parsing_serving_input_receiver_fn`; with a raw receiver, use the signature "predict".
          assets_extra: dict of paths below the SavedModel's `assets.extra` to the files to copy there.
          as_text: whether to write saved_model.pbtxt instead of saved_model.pb.
          checkpoint_path: path prefix of the checkpoint; None means the newest.
          experimental_mode: which of `ModeKeys` to export.

        Returns:
          The path of the SavedModel's directory, as bytes.

        Raises ValueError if there is no receiver function or no trained model.
        """
        receiver_fns = {experimental_mode: serving_input_receiver_fn}
        return self.experimental_export_all_saved_models(
            export_dir_base, receiver_fns, assets_extra, as_text, checkpoint_path
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: str | os.PathLike[str],
        input_receiver_fn_map: Mapping[str, Callable[[], InputReceiver]],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> bytes:
        """Writes one SavedModel with a MetaGraph per mode, tagged "train", "eval" and "serve".

        See `export_saved_model` for the other arguments.

        Args:
          input_receiver_fn_map: dict of `ModeKeys` to functions that return input receivers.
        """
        receiver_fns = _checked_receiver_fns(input_receiver_fn_map)
        checkpoint = checkpoint_path or self._newest_checkpoint()
        if checkpoint is None and not self._model.has_initial_values:
            raise ValueError(f"Couldn't find trained model at {self.model_dir}; train it first.")
        with (
            explaining_errors(export_dir_base),
            new_export_directory(export_dir_base, assets_extra) as (temporary, final),
        ):
            self._model.export(receiver_fns, self._start(self.params, checkpoint), temporary, as_text)
        return final

    if not TYPE_CHECKING:  # type checkers would believe that an Estimator has every member

        def __getattr__(self, name: str) -> Any:
            if name not in MEMBERS:
                return super().__getattribute__(name)  # raises the error again, such as that of a subclass's property
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; {MEMBERS[name]}", name=name, obj=self
            )

    def _prepare(
        self,
        mode: str,
        input_fn: InputFn,
        checkpoint: str | None,
        last_step: int | None,
        hooks: Sequence[SessionRunHook] = (),
    ) -> Run:
        return self._model.prepare(
            mode, input_fn, self._start(self._params_in(mode), checkpoint), last_step=last_step, hooks=hooks
        )

    def _start(self, params: Params, checkpoint: str | None) -> Start:
        return Start(copy.deepcopy(self._config), params, checkpoint)

    def _assert_members_are_not_overridden(self) -> None:
        """Raises ValueError if a subclass overrides a public member, since the loop relies on all of them.

        tf.estimator had no `predictor`, so existing subclasses may define one. This method has tf.estimator's name,
        because subclasses replace it to get around the check.
        """
        allowed = {"model_fn", "latest_checkpoint", "predictor"}
        members = [name for name in vars(Estimator) if not name.startswith("_") and name not in allowed]
        _refuse_overrides(type(self), members)

    def _params_in(self, mode: str) -> Params:
        """Returns the params that input_fn and model_fn get in `mode`."""
        return self.params

    def _newest_checkpoint(self) -> str | None:
        """Returns `latest_checkpoint()` as a path that remains valid after os.chdir, or None."""
        path = self.latest_checkpoint()
        return path and model_dirs.absolute(path)

    def _trained_checkpoint(self) -> str:
        path = self._newest_checkpoint()
        if path is None:
            raise ValueError(f"Could not find trained model in model_dir: {self.model_dir}.")
        return path


def _metrics_of(run: Run, steps: int | None, hooks: Sequence[SessionRunHook]) -> dict[str, Any]:
    """Runs an evaluation in the run's graph, which is the default, and returns its metrics."""
    values = {key: value for key, (value, _) in run.spec.eval_metric_ops.items()}
    updates = list({id(update): update for _, update in run.spec.eval_metric_ops.values()}.values())
    results = v1.train.FinalOpsHook(values | {"global_step": v1.train.get_global_step()})
    log.info("Starting evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
    start = time.perf_counter()
    hooks = [*run.input_hooks, *hooks, EvalProgressHook(steps), *run.spec.evaluation_hooks, results]
    with v1.train.MonitoredSession(run.session_creator, hooks) as session:
        while not session.should_stop():
            session.run(updates)
    log.info("Inference Time : %0.5fs", time.perf_counter() - start)
    log.info("Finished evaluation at %s", time.strftime("%Y-%m-%d-%H:%M:%S"))
    return dict(results.final_ops_values)


@contextlib.contextmanager
def _suspendable_session(run: Run, hooks: Sequence[SessionRunHook]) -> Iterator[tf.compat.v1.train.MonitoredSession]:
    """Opens a MonitoredSession, with the run's graph as default only while it opens and closes.

    A generator may therefore yield inside the block without changing its caller's eager mode or default graph.
    """

    def close(*exc_info: Any) -> bool | None:
        with run.as_default():
            return session.__exit__(*exc_info)

    with run.as_default():
        session = v1.train.MonitoredSession(run.session_creator, hooks)
    with contextlib.ExitStack() as stack:
        stack.push(close)
        yield session


def _config_with_model_dir(config: RunConfig | None, model_dir: str | os.PathLike[str] | None) -> RunConfig:
    if config is not None and not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config!r}.")
    config = config or RunConfig()
    # Like tf.estimator, treat "" as not given: it is a common default of --model_dir flags.
    given = {model_dirs.absolute(path) for path in (model_dir, config.model_dir) if path}
    if model_dir is not None and len(given) > 1:
        raise ValueError(
            f"`model_dir` are set both in constructor and `RunConfig`: {os.fspath(model_dir)!r} and "
            f"{config.model_dir!r}; give one."
        )
    if not given:
        given.add(tempfile.mkdtemp())
        log.warning("Using temporary folder as model directory: %s", *given)
    if config.session_config:
        use_gpu_options(config.session_config)
    session_config = config.session_config or default_session_config()
    return config.replace(model_dir=given.pop(), session_config=session_config)


def _make_deterministic(config: RunConfig) -> None:
    if config.num_ps_replicas:
        raise ValueError(
            "deterministic=True cannot serve parameter servers, whose workers update the weights in the order in which "
            "they get there; leave it out, or train in one process."
        )
    tf.config.experimental.enable_op_determinism()


# Methods that subclasses of tf.estimator.Estimator could override, but which nothing here would call.
_UNCALLED = ("_call_input_fn", "_call_model_fn", "_create_and_assert_global_step", "_create_global_step")


def _refuse_overrides(kind: type, names: Iterable[str]) -> None:
    overridden = [name for name in names if getattr(kind, name, None) is not getattr(Estimator, name, None)]
    if overridden:
        raise ValueError(
            "Subclasses of Estimator cannot override members of Estimator. "
            f"{kind.__name__} does override {sorted(overridden)}; rename these methods."
        )


def _checked_receiver_fns(given: Mapping[str, Callable[[], InputReceiver]]) -> dict[str, Callable[[], InputReceiver]]:
    """Returns the input receiver functions in the order of their modes."""
    modes = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
    unknown = [mode for mode in given if mode not in modes]
    if unknown:
        raise ValueError(f"No valid modes for exporting: {unknown}; valid modes are {list(modes)}.")
    receiver_fns = {mode: given[mode] for mode in modes if mode in given}
    if not receiver_fns or None in receiver_fns.values():
        raise ValueError("An input_receiver_fn must be defined: it declares the inputs of the exported model.")
    return receiver_fns


def _whole(name: str, count: float | None) -> int | None:
    """Returns the number of steps, rounded up, or None. Callers pass fractions such as `len(x) / batch_size`."""
    if count is None:
        return None
    if np.ndim(count):
        raise TypeError(
            f"{name} must be a number, given: {type(count).__name__}; labels belong to what the input_fn returns"
        )
    if count <= 0:
        raise ValueError(f"Must specify {name} > 0, given: {count}")
    return math.ceil(count)


def _select(predictions: Nest, keys: str | Iterable[str] | None) -> Nest:
    if isinstance(keys, str | None):
        keys = [keys] if keys else []
    keys = list(keys)
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    selected = {key: value for key, value in predictions.items() if key in keys}
    if not selected:
        raise ValueError(f"Expected to run at least one output from {list(predictions)}, provided {keys}.")
    return selected


def _examples(batch: Nest) -> Iterator[Any]:
    """Yields the examples of a batch of predictions, which is an array or a dict of arrays."""
    named = batch if isinstance(batch, dict) else {"predictions": batch}
    scalars = [key for key, value in named.items() if isinstance(value, bytes | np.generic)]
    if scalars:
        raise ValueError(
            f"Predictions must have a value per example, but {scalars} are scalars; choose others with predict_keys, "
            "or pass yield_single_examples=False."
        )
    if not isinstance(batch, dict):
        yield from batch
        return
    lengths = {key: len(value) for key, value in batch.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"Batch length of predictions should be same. It is {lengths}; pass yield_single_examples=False."
        )
    for index in range(next(iter(lengths.values()))):
        yield {key: value[index] for key, value in batch.items()}
