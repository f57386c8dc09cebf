"""KerasModel: lets the Estimator's loop run a Keras model, as TF 2."""

from __future__ import annotations

import collections
import contextlib
import functools
import threading

import tensorflow as tf

from estimator_train._engine.distribution import synchronous
from estimator_train._engine.export_outputs import PredictOutput
from estimator_train._engine.input_fns.protocols import on_host_and_device, without_changes
from estimator_train._engine.keras.dataset import distributed_dataset
from estimator_train._engine.keras.hook_graph import make_hook_graph
from estimator_train._engine.keras.model_state import BUILDING, ModelState
from estimator_train._engine.keras.run import StepRunner
from estimator_train._engine.keras.saved_model import write_saved_model
from estimator_train._engine.keras.step_programs import EvaluationProgram, PredictionProgram, TrainingProgram, predict
from estimator_train._engine.keras.tf_keras.private_tf_keras import eager_classes
from estimator_train._engine.model_fn import EpochHook, ModeKeys, PreparedModel, Run, argument_names, metrics_of
from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.function_session import FunctionSessionCreator
from estimator_train._engine.session.private_tensorflow import eager_mode


class _KerasRun(Run):
    @contextlib.contextmanager
    def as_default(self):
        with eager_classes(), super().as_default():
            yield


class KerasModel(PreparedModel):
    """The `PreparedModel` of a Keras model.

    Separate copies of the model are used for training, for evaluation and prediction from checkpoints, and, in the
    given state, for evaluation before training. Each strategy has its own copies, and so does each of several runs at
    the same time, such as evaluations in threads. The copies and their compiled loops live as long as the KerasModel.
    """

    has_initial_values = True

    def __init__(self, source, metric_names_map=None, export_outputs=None, metric_fns=()):
        self._source = source
        self._metric_names_map = metric_names_map
        self._export_outputs = export_outputs
        self._metric_fns = metric_fns
        self._idle_states = collections.defaultdict(list)  # by role and strategy, those that no run uses
        self._trained = None  # the state of the last training
        self._just_saved = None  # the path of its checkpoint, and the thread in which it waits

    def with_metrics(self, metric_fn):
        return KerasModel(self._source, self._metric_names_map, self._export_outputs, (*self._metric_fns, metric_fn))

    def prepare(self, mode, input_fn, config, params, checkpoint_path, last_step, hooks=()):
        is_one_of_several = config.num_worker_replicas > 1 and not synchronous.spans_workers(config.train_distribute)
        if mode == ModeKeys.TRAIN and is_one_of_several:
            raise ValueError(
                f"TF_CONFIG names {config.num_worker_replicas} workers; pass a "
                "tf.distribute.MultiWorkerMirroredStrategy to RunConfig as train_distribute, or unset TF_CONFIG."
            )
        with contextlib.ExitStack() as stack:
            with eager_classes(), eager_mode():
                if mode == ModeKeys.TRAIN and config.tf_random_seed is not None:
                    tf.random.set_seed(config.tf_random_seed)
                state = stack.enter_context(self._state(mode, config, checkpoint_path))
                epoch_hooks = [hook for hook in hooks if isinstance(hook, EpochHook)] if mode == ModeKeys.TRAIN else []
                if epoch_hooks and synchronous.spans_workers(config.train_distribute):
                    raise ValueError(
                        "CallbacksHook supports training in one process only, but MultiWorkerMirroredStrategy trains "
                        "in several; use SessionRunHooks or MirroredStrategy."
                    )
                program, input_fn = self._step_program(mode, state, input_fn, config, bool(epoch_hooks))
                for hook in epoch_hooks:
                    hook.attach(state.model, program.model.reset_metrics, config)
                epochs = [hook.steps_per_epoch for hook in epoch_hooks]
                resumes = mode == ModeKeys.TRAIN and config.resume_input
                if mode == ModeKeys.TRAIN:
                    state.draw_input_seed()

                def make_dataset():
                    position = state.input_position() if resumes else None
                    offered = {"mode": mode, "config": config, "params": params}
                    return distributed_dataset(state.strategy, input_fn, position, **offered)

                steps = StepRunner(state, program, make_dataset, config, checkpoint_path, last_step, epochs)
            is_shared = mode != ModeKeys.TRAIN and not hooks and not self._metric_fns
            make = state.hook_graph if is_shared else functools.partial(make_hook_graph, checkpoint=state.checkpoint)
            hook_graph, spec = make(mode, steps.value_specs, config=config)
            if epoch_hooks:
                hook_graph.graph.add_to_collection(step_outputs.RUN_OVER_EPOCHS, 1)  # a graph saves integers
            if mode == ModeKeys.EVAL and self._metric_fns:
                with hook_graph.graph.as_default():
                    parts = tf.nest.pack_sequence_as(steps.batch_structure, hook_graph.batch_tensors)
                    metrics = spec.eval_metric_ops | metrics_of(self._metric_fns, parts, config)
                    spec = spec._replace(eval_metric_ops=metrics)
            triggers = list(hook_graph.values.values()) if mode == ModeKeys.PREDICT else [hook_graph.step_op]
            creator = FunctionSessionCreator(spec.scaffold, hook_graph, steps, triggers)
            give_back = stack.pop_all().close
            return _KerasRun(hook_graph.graph, spec, creator, agreement=steps.agreement, close=give_back)

    def predict_functions(self, config, params, checkpoint_path, select):
        # A separate state, because evaluations share theirs and load different checkpoints into it.
        with eager_classes(), eager_mode():
            _check_scope(None)
            role = "given" if checkpoint_path is None else "checkpoint"
            state = self._new_state(None, role, config)
            self._restore(state, checkpoint_path)
        program = PredictionProgram(state.adapter, state.model, None)

        def function_of(spec):
            with eager_classes():
                with state.new_variables_restored(checkpoint_path):
                    state.loop(program).trace_features(spec)
                # The first trace may be gone, because it has old statistics of Normalization layers as constants.
                run = state.loop(program).trace_features(spec)
            names = list(select(run.structured_outputs))

            def function(features):
                predictions = run(features)
                return {name: predictions[name].numpy() for name in names}

            return function, lambda: None

        return function_of

    def export(self, receiver_fns, config, params, checkpoint_path, directory, as_text):
        if list(receiver_fns) != [ModeKeys.PREDICT]:
            raise ValueError(
                f"A Keras model can only be exported for {ModeKeys.PREDICT!r}, given: {list(receiver_fns)}."
            )
        with eager_classes(), eager_mode(), self._state(ModeKeys.PREDICT, config, checkpoint_path) as state:

            def predictions_of(features):
                return predict(state.adapter, state.model, state.model.predict_step, features)

            # A custom gradient is saved with the tensors that it captures from its own function.
            traced = tf.function(predictions_of, autograph=False)

            def serve(features):
                predictions = traced(features)
                outputs = {name: kind(predictions[name]) for name, kind in (self._export_outputs or {}).items()}
                return {tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(predictions)} | outputs

            receiver_fn = receiver_fns[ModeKeys.PREDICT]
            if not state.model.built:  # v1 functions, in which signatures are traced, would reuse variables by name
                with state.new_variables_restored(checkpoint_path):
                    tf.function(lambda: predictions_of(receiver_fn().features), autograph=False).get_concrete_function()
            write_saved_model(state.root, serve, receiver_fn, directory, as_text)

    @contextlib.contextmanager
    def just_saved(self, path):
        self._just_saved = path, threading.get_ident()
        try:
            yield
        finally:
            self._just_saved = None

    def _restore(self, state, path):
        """Restores `state` from the checkpoint at `path`, if any, or from the training that has just saved it."""
        if path is not None:
            has_just_saved = self._just_saved == (path, threading.get_ident())
            state.restore(path, self._trained if has_just_saved else None)

    @contextlib.contextmanager
    def _state(self, mode, config, checkpoint_path):
        """Gives a state for one run, restored from the checkpoint at prefix `checkpoint_path` if it is not None."""
        strategy = {ModeKeys.TRAIN: config.train_distribute, ModeKeys.EVAL: config.eval_distribute}.get(mode)
        if mode == ModeKeys.EVAL and synchronous.spans_workers(strategy):
            raise ValueError(
                "eval_distribute must not span a cluster's workers, because a single process evaluates a checkpoint."
            )
        _check_scope(strategy)
        role = "train" if mode == ModeKeys.TRAIN else "given" if checkpoint_path is None else "checkpoint"
        idle = self._idle_states[role, id(strategy)]
        state = None
        with contextlib.suppress(IndexError):  # asking first would not help: another thread may take the last one
            state = idle.pop()
        if state is not None and state.loaded is not None:
            # A trained copy cannot return to the given state, because the optimizer's slots would remain. Nor can it
            # take a checkpoint of other frozen layers, in which it lacks slots that must start anew.
            is_other = checkpoint_path is None or (role == "train" and state.has_slots_of_others(checkpoint_path))
            state = None if is_other else state
        if state is None:
            replicas = _for_xla(strategy) if mode == ModeKeys.TRAIN and config.jit_compile else strategy
            state = self._new_state(replicas, role, config)
        if role == "train":
            self._trained = state
        try:
            self._restore(state, checkpoint_path)
            yield state
        finally:
            idle.append(state)

    def _new_state(self, strategy, role, config):
        with BUILDING:
            return ModelState(self._source, strategy or tf.distribute.get_strategy(), role, config)

    def _step_program(self, mode, state, input_fn, config, has_epochs):
        """Returns the program of a run's steps and the input_fn that feeds it on the host."""
        model = state.model
        input_fn, changes = without_changes(input_fn)
        if mode == ModeKeys.TRAIN:
            model, input_fn = state.to_train(input_fn)
        _, preprocess = on_host_and_device(input_fn)
        if mode == ModeKeys.TRAIN:
            position = state.trained_examples, state.draws
            options = config.jit_compile, config.accumulate_steps, has_epochs, changes
            program = TrainingProgram(state.adapter, model, preprocess, self._rename, *position, *options)
        elif mode == ModeKeys.EVAL:
            parts = {name for metric_fn in self._metric_fns for name in argument_names(metric_fn)} - {"config"}
            program = EvaluationProgram(state.adapter, model, preprocess, self._rename, tuple(sorted(parts)))
        else:
            program = PredictionProgram(state.adapter, model, preprocess)
        return program, input_fn

    def _rename(self, logs):
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
        losses = {
            name for name in metrics if name.endswith("_loss")
        }  # losses of outputs, which tf.estimator did not report
        if not metrics - losses <= self._metric_names_map.keys() <= metrics:
            raise ValueError(
                f"metric_names_map must have every compiled metric, {sorted(metrics)}, and no other key; "
                f"it has {sorted(self._metric_names_map)}."
            )
        return {self._metric_names_map.get(name, name): value for name, value in logs.items()}


def _check_scope(strategy):
    if tf.distribute.has_strategy() and tf.distribute.get_strategy() is not strategy:
        raise ValueError(
            "train, evaluate and predict cannot run inside the scope() of another strategy than their own; leave the "
            "scope, and pass the strategy to RunConfig as train_distribute or eval_distribute."
        )


def _for_xla(strategy):
    """Replaces a MirroredStrategy over one CPU: XLA cannot compile its merge_call, which TensorFlow omits on GPUs."""
    if isinstance(strategy, tf.distribute.MirroredStrategy):
        (device,) = strategy.extended.worker_devices
        if "GPU" not in device:
            return tf.distribute.OneDeviceStrategy(device)
    return strategy


def _flat(logs):
    """Flattens nested dicts in `logs`, such as the result of Keras 3's compiled metrics."""
    flat = {}
    for name, value in logs.items():
        flat |= _flat(value) if isinstance(value, dict) else {name: value}
    return flat
