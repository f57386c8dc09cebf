"""KerasModel: lets the Estimator's loop run a Keras model, as TF 2."""

import collections
import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimator_train._engine.argument_names import argument_names
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.exports.outputs import ExportOutput, PredictOutput
from estimator_train._engine.exports.receivers import ReceiverFn
from estimator_train._engine.hooks import EpochHook, takes_each_step
from estimator_train._engine.input_fns.protocols import NeedsClasses, without_changes
from estimator_train._engine.keras import step_programs
from estimator_train._engine.keras.adapter_choice import eager_classes
from estimator_train._engine.keras.loop import PredictionLoop
from estimator_train._engine.keras.model_state import BUILDING, EvaluationState, ModelState, TrainingState
from estimator_train._engine.keras.protocols import Logs
from estimator_train._engine.keras.run import StepRunner
from estimator_train._engine.keras.saved_model import Serve, write_saved_model
from estimator_train._engine.keras.source import ModelSource
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys, PreparedModel, Run, Start, metrics_of
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session.function_session import FunctionSessionCreator, HookGraph
from estimator_train._engine.session.private_tensorflow import eager_mode
from estimator_train._engine.types import Hooks, Nest, Predictor, Strategy

# The model that was last trained in a directory. It frees its copies when another one is trained there: a notebook,
# which keeps the Estimators of a cell that is run again, would keep the copies of each.
_LAST_TRAINED: weakref.WeakValueDictionary[str, "KerasModel"] = weakref.WeakValueDictionary()


class _KerasRun(Run):
    @contextlib.contextmanager
    def as_default(self) -> Iterator[None]:
        with eager_classes(), super().as_default():
            yield


class KerasModel(PreparedModel):
    """The `PreparedModel` of a Keras model.

    Separate copies of the model are used for training, for evaluation and prediction from checkpoints, and, in the
    given state, for evaluation before training. Each strategy has its own copies, and so does each of several runs at
    the same time, such as evaluations in threads. The copies and their compiled loops live as long as the KerasModel,
    or until another one is trained in the same directory; see `_LAST_TRAINED`.

    `prepare` makes a run in this order, in which each step needs the one before: the state, a copy that no other run
    uses; the program, which defines the step for what the input_fn gives; the steps, which read the checkpoint, make
    the dataset from the training's position in it and trace the loop; the hook graph, for the values that the trace
    returns. Whatever fails, the state is given back or dropped, and what was opened is closed.
    """

    has_initial_values = True

    def __init__(
        self,
        source: ModelSource,
        metric_names_map: dict[str, str] | None = None,
        export_outputs: dict[str, type] | None = None,
        metric_fns: tuple[Callable, ...] = (),
    ) -> None:
        self._source = source
        self._metric_names_map = metric_names_map
        self._export_outputs = export_outputs
        self._metric_fns = metric_fns
        # By role and strategy, those that no run uses.
        self._idle_states: dict[tuple[str, int], list] = collections.defaultdict(list)
        self._trained: ModelState | None = None  # the state of the last training
        # The path of its checkpoint, and the thread in which it waits.
        self._just_saved: tuple[str | None, int] | None = None

    def with_metrics(self, metric_fn: Callable) -> "KerasModel":
        return KerasModel(self._source, self._metric_names_map, self._export_outputs, (*self._metric_fns, metric_fn))

    def prepare(self, mode: str, input_fn: Callable, start: Start, last_step: int | None, hooks: Hooks = ()) -> Run:
        config, params, checkpoint = start
        with contextlib.ExitStack() as stack:
            if mode == ModeKeys.TRAIN:
                self._begin_training(config, hooks)
            with eager_classes(), eager_mode():
                state = stack.enter_context(self._state(mode, start))
                program, input_fn = self._program(mode, state, input_fn, config, hooks)
                offered = {"mode": mode, "config": config, "params": params}
                make_dataset = functools.partial(state.dataset, input_fn, **offered)
                restored = state.restored(checkpoint, self._just_trained(checkpoint))
                steps = StepRunner(state, program, make_dataset, config, restored, last_step, hooks)
                stack.callback(steps.close)
            is_shared = not (program.trains or hooks or self._metric_fns)
            hook_graph, spec = state.hook_graph(program, steps.value_specs, config, is_shared)
            if mode == ModeKeys.EVAL and self._metric_fns:
                spec = self._with_metrics(spec, hook_graph, steps.batch_structure, config)
            triggers, is_restored = program.triggers(hook_graph), checkpoint is not None
            creator = FunctionSessionCreator(spec.scaffold, hook_graph, steps, triggers, is_restored)
            give_back = stack.pop_all().close
            return _KerasRun(hook_graph.graph, spec, creator, agreement=steps.agreement, close=give_back)

    def _begin_training(self, config: RunConfig, hooks: Hooks) -> None:
        spans_workers = synchronous.spans_workers(config.train_distribute)
        if config.num_worker_replicas > 1 and not spans_workers:
            raise ValueError(
                f"TF_CONFIG names {config.num_worker_replicas} workers; pass a "
                "tf.distribute.MultiWorkerMirroredStrategy to RunConfig as train_distribute, or unset TF_CONFIG."
            )
        if spans_workers and any(isinstance(hook, EpochHook) for hook in hooks):
            raise ValueError(
                "CallbacksHook supports training in one process only, but MultiWorkerMirroredStrategy trains "
                "in several; use SessionRunHooks or MirroredStrategy."
            )
        earlier = _LAST_TRAINED.get(config.model_dir, self)
        if earlier is not self:
            earlier.free_states()
        _LAST_TRAINED[config.model_dir] = self
        if config.tf_random_seed is not None:
            with eager_mode():
                tf.random.set_seed(config.tf_random_seed)

    def predict_functions(self, start: Start, select: Callable[[dict], Iterable[str]]) -> Callable:
        checkpoint = start.checkpoint
        # A separate state, because evaluations share theirs and load different checkpoints into it.
        with eager_classes(), eager_mode():
            _check_scope(None)
            state = self._new_state(EvaluationState, None, start.config)
            state.restore_early(checkpoint, self._just_trained(checkpoint))
        program = step_programs.PredictionProgram(state.adapter, state.model, None)

        def function_of(spec: Nest) -> Predictor:
            with eager_classes():
                # Not `restored`: the checkpoint may have been deleted since.
                with state.completed(checkpoint), BUILDING:
                    state.loop(program, PredictionLoop).trace_features(spec)
                # The first trace may be gone, because it has old statistics of Normalization layers as constants.
                run = state.loop(program, PredictionLoop).trace_features(spec)
            names = list(select(run.structured_outputs))

            def function(features: Nest) -> dict[str, Nest]:
                predictions = run(features)
                return {name: predictions[name].numpy() for name in names}

            return function, lambda: None

        return function_of

    def export(self, receiver_fns: Mapping[str, ReceiverFn], start: Start, directory: str, as_text: bool) -> None:
        if list(receiver_fns) != [ModeKeys.PREDICT]:
            raise ValueError(
                f"A Keras model can only be exported for {ModeKeys.PREDICT!r}, given: {list(receiver_fns)}."
            )
        receiver_fn = receiver_fns[ModeKeys.PREDICT]
        with eager_classes(), eager_mode(), self._state(ModeKeys.PREDICT, start) as state:
            predictions_of, serve = self._serving(state)
            with state.restored(start.checkpoint, self._just_trained(start.checkpoint)):
                if not state.model.built:  # v1 functions, in which signatures are traced, would reuse variables by name
                    build = tf.function(lambda: predictions_of(receiver_fn().features), autograph=False)
                    with BUILDING:
                        build.get_concrete_function()
            write_saved_model(state.root, serve, receiver_fn, directory, as_text)

    def _serving(self, state: ModelState) -> tuple[Callable[[Nest], dict[str, Nest]], Serve]:
        def predictions_of(features: Nest) -> dict[str, Nest]:
            return step_programs.predict(state.adapter, state.model, state.model.predict_step, features)

        # A custom gradient is saved with the tensors that it captures from its own function.
        traced = tf.function(predictions_of, autograph=False)

        def serve(features: Nest) -> dict[str, ExportOutput]:
            predictions = traced(features)
            outputs = {name: kind(predictions[name]) for name, kind in (self._export_outputs or {}).items()}
            return {tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(predictions)} | outputs

        return predictions_of, serve

    def free_states(self) -> None:
        """Frees the memory of all copies that no run uses; the next run starts from its checkpoint with a new one."""
        self._idle_states.clear()
        self._trained = None

    @contextlib.contextmanager
    def just_saved(self, path: str | None) -> Iterator[None]:
        self._just_saved = path, threading.get_ident()
        try:
            yield
        finally:
            self._just_saved = None

    def _just_trained(self, path: str | None) -> ModelState | None:
        """Returns the state of the training that has just saved the checkpoint at `path` and waits, or None."""
        if self._just_saved != (path, threading.get_ident()):
            return None
        return self._trained

    @contextlib.contextmanager
    def _state(self, mode: str, start: Start) -> Iterator[ModelState]:
        """Gives a state for one run; after an error, which may leave layers half built, no other run gets it."""
        kind = TrainingState if mode == ModeKeys.TRAIN else EvaluationState
        strategy = start.strategy(mode)
        if mode == ModeKeys.EVAL and synchronous.spans_workers(strategy):
            raise ValueError(
                "eval_distribute must not span a cluster's workers, because a single process evaluates a checkpoint."
            )
        _check_scope(strategy)
        idle = self._idle_states[kind.role(start.checkpoint), id(strategy)]
        state = None
        with contextlib.suppress(IndexError):  # asking first would not help: another thread may take the last one
            state = idle.pop()
        if state is None or not state.can_start_from(start.checkpoint):
            state = self._new_state(kind, strategy, start.config)
        if isinstance(state, TrainingState):
            self._trained = state
        try:
            yield state
        except BaseException:
            if state is self._trained:
                self._trained = None
            raise
        idle.append(state)

    def _new_state(self, kind: type[ModelState], strategy: Strategy | None, config: RunConfig) -> ModelState:
        with BUILDING:
            return kind(self._source, _without_merging(strategy or tf.distribute.get_strategy()), config)

    def _program(
        self, mode: str, state: Any, input_fn: Callable, config: RunConfig, hooks: Hooks
    ) -> tuple[step_programs.StepProgram, Callable]:
        input_fn, changes = without_changes(input_fn)
        model, input_fn, preprocess = state.fed_by(input_fn)
        parts = state.adapter, model, preprocess
        replicas = state.strategy.num_replicas_in_sync
        if mode == ModeKeys.PREDICT:
            return step_programs.PredictionProgram(*parts), input_fn
        if mode == ModeKeys.EVAL:
            taken = {name for metric_fn in self._metric_fns for name in argument_names(metric_fn)} - {"config"}
            return step_programs.EvaluationProgram(*parts, self._rename, tuple(sorted(taken)), replicas), input_fn
        classes = state.adapter.number_of_classes(state.model)
        for change in changes:
            if classes is not None and isinstance(change, NeedsClasses):
                change.check_classes(classes)
        epoch_hooks = [hook for hook in hooks if isinstance(hook, EpochHook)]
        program = step_programs.TrainingProgram(
            *parts,
            self._rename,
            state.trained_examples,
            state.draws,
            jit_compile=config.jit_compile,
            replicas=replicas,
            batches_per_step=config.accumulate_steps,
            has_epochs=bool(epoch_hooks),
            changes=changes,
            keeps_each_step=takes_each_step(hooks),
        )
        for hook in epoch_hooks:
            hook.attach(state.model, model.reset_metrics, config)
        return program, input_fn

    def _with_metrics(
        self, spec: EstimatorSpec, hook_graph: HookGraph, batch_structure: Nest, config: RunConfig
    ) -> EstimatorSpec:
        with hook_graph.graph.as_default():
            tensors = iter(hook_graph.batch_tensors)
            parts = tf.nest.map_structure(
                lambda part: None if part is None else next(tensors), batch_structure, expand_composites=True
            )
            metrics = spec.eval_metric_ops | metrics_of(self._metric_fns, parts, config)
            return spec._replace(eval_metric_ops=metrics)

    def _rename(self, logs: object) -> Logs:
        if not isinstance(logs, dict):
            raise ValueError(f"train_step and test_step must return a dict of names to values, got: {logs!r}")
        logs = _flat(logs)
        if "global_step" in logs:
            raise ValueError(
                "A metric cannot be called global_step, which is a key of the results; give it another name."
            )
        if self._metric_names_map is None:
            return dict(logs)
        metrics = logs.keys() - {"loss"}
        # Losses of outputs, which tf.estimator did not report.
        losses = {name for name in metrics if name.endswith("_loss")}
        if not metrics - losses <= self._metric_names_map.keys() <= metrics:
            raise ValueError(
                f"metric_names_map must have every compiled metric, {sorted(metrics)}, and no other key; "
                f"it has {sorted(self._metric_names_map)}."
            )
        return {self._metric_names_map.get(name, name): value for name, value in logs.items()}


def _without_merging(strategy: Strategy) -> Strategy:
    """Replaces a MirroredStrategy over one device, whose only replica would be merged with no others."""
    # XLA cannot compile that on a CPU, nor on a GPU, where TensorFlow sums the gradients of one replica by a collective
    # op, which a loop cannot contain.
    is_alone = isinstance(strategy, tf.distribute.MirroredStrategy) and strategy.num_replicas_in_sync == 1
    if not is_alone or tf.distribute.has_strategy():  # in its own scope, no other strategy's can be entered
        return strategy
    return tf.distribute.OneDeviceStrategy(*strategy.extended.worker_devices)


def _check_scope(strategy: Strategy | None) -> None:
    if tf.distribute.has_strategy() and tf.distribute.get_strategy() is not strategy:
        raise ValueError(
            "train, evaluate and predict cannot run inside the scope() of another strategy than their own; leave the "
            "scope, and pass the strategy to RunConfig as train_distribute or eval_distribute."
        )


def _flat(logs: Logs) -> Logs:
    flat: Logs = {}
    for name, value in logs.items():
        flat |= _flat(value) if isinstance(value, dict) else {name: value}
    return flat
