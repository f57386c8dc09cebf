"""GraphModel: builds a v1 graph from a model_fn for each call of train, evaluate, predict and export."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_train._engine.argument_names import argument_names, taken_by
from estimator_train._engine.call_limits import CallLimits, EvaluationLimits
from estimator_train._engine.checkpoints import CheckpointError
from estimator_train._engine.cluster import synchronous
from estimator_train._engine.distribution.replica_input import log_batch
from estimator_train._engine.exports.outputs import EvalOutput, TrainOutput
from estimator_train._engine.exports.receivers import InputReceiver, ReceiverFn
from estimator_train._engine.exports.signatures import signatures
from estimator_train._engine.graph import private_tensorflow, private_tf_keras, warm_start
from estimator_train._engine.graph.inputs import Input, features_and_labels
from estimator_train._engine.graph.keras_session import KerasSession
from estimator_train._engine.graph.looped_steps import LoopedSteps
from estimator_train._engine.graph.replicas import combine_scaffolds, combine_specs, in_graphs, keep_whole_variables
from estimator_train._engine.graph.saver import Saver, check_same_shapes
from estimator_train._engine.graph.session import GraphSessionCreator
from estimator_train._engine.graph.step_loop import LoopedGraph
from estimator_train._engine.model_fn import EstimatorSpec, ModeKeys, ModelFn, PreparedModel, Run, Start, metrics_of
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.session import step_outputs
from estimator_train._engine.session.ancestors import ancestors
from estimator_train._engine.session.out_of_memory import ReportAllocationsHook
from estimator_train._engine.session.private_tensorflow import global_step_read
from estimator_train._engine.types import Hooks, InputFn, MetricFn, Nest, Params, PredictFunctions, Predictor, Scaffold

v1 = tf.compat.v1
log = tf.get_logger()

_TAGS = {ModeKeys.TRAIN: "train", ModeKeys.EVAL: "eval", ModeKeys.PREDICT: tf.saved_model.SERVING}
_OUTPUTS = {ModeKeys.TRAIN: TrainOutput, ModeKeys.EVAL: EvalOutput}  # those that no server serves
_ARGUMENTS = ("features", "labels", "mode", "params", "config")


class GraphModel(PreparedModel):
    """The `PreparedModel` of a model_fn, with the arguments of `Estimator`; ValueError if the model_fn's do not fit."""

    def __init__(self, model_fn: ModelFn, params: Params, warm_start_from: warm_start.WarmStart | None) -> None:
        self._model_fn = model_fn
        self._names = _checked_names(model_fn, params)
        self._warm_start_from = warm_start.check(warm_start_from)
        self._metric_fns: tuple[MetricFn, ...] = ()

    @property
    def has_initial_values(self) -> bool:
        return self._warm_start_from is not None

    def with_metrics(self, metric_fn: MetricFn) -> "GraphModel":
        model = copy.copy(self)
        model._metric_fns = (*self._metric_fns, metric_fn)
        return model

    def prepare(self, mode: str, input_fn: InputFn, start: Start, last_step: int | None, hooks: Hooks = ()) -> Run:
        config, params, _ = start
        strategy = start.strategy(mode)
        if synchronous.spans_workers(strategy):
            raise ValueError(
                "MultiWorkerMirroredStrategy trains Keras models only; to train a model_fn on several machines, use "
                "parameter servers (ps in TF_CONFIG's cluster) and no strategy."
            )
        if mode == ModeKeys.TRAIN and config.resume_input:
            raise ValueError(
                "resume_input is for Keras models; with a model_fn, train always starts the input from the beginning"
            )
        if mode == ModeKeys.TRAIN and strategy is not None:
            log_batch("a batch each", strategy.num_replicas_in_sync)

        def make_input() -> Input:
            return features_and_labels(input_fn, mode=mode, config=config, params=params)

        return self._built(mode, make_input, start, last_step, hooks)

    def predict_functions(self, start: Start, select: Callable[[Nest], Nest]) -> PredictFunctions:
        def function_of(spec: Nest) -> Predictor:
            fed: list[tf.Tensor] = []

            def make_input() -> Input:
                parts = tf.nest.flatten(spec, expand_composites=True)
                fed.extend(v1.placeholder(part.dtype, part.shape) for part in parts)
                return tf.nest.pack_sequence_as(spec, fed, expand_composites=True), None, ()

            run = self._built(ModeKeys.PREDICT, make_input, start)
            return _session_functions(run, select(run.spec.predictions), fed)

        return function_of

    def _built(
        self,
        mode: str,
        make_input: Callable[[], Input],
        start: Start,
        last_step: int | None = None,
        user_hooks: Hooks = (),
    ) -> Run:
        specs, trains = [], mode == ModeKeys.TRAIN
        config, _, checkpoint = start

        def build(features: Nest, labels: Nest) -> None:
            specs.append(self._spec(features, labels, mode, start, reports_loss=True))

        with _new_graph(config, start.strategy(mode)) as graph:
            features, labels, input_hooks = make_input()
            with self._warm_starting(checkpoint):
                tf.distribute.get_strategy().extended.call_for_each_replica(build, args=(features, labels))
                spec = combine_specs(specs)
                if trains:
                    v1.add_to_collection(v1.GraphKeys.LOSSES, spec.loss)  # old hooks look for it there
                    _read_global_step_before_updates(spec.train_op)
                keep_whole_variables()
            _add_saver(spec.scaffold, config, checkpoint)
            steps = None
            if start.strategy(mode) is None and config.num_worker_replicas < 2:
                steps = _looped_steps(spec, config, last_step, [*input_hooks, *user_hooks])
        creator = GraphSessionCreator(spec.scaffold, config, checkpoint, trains, steps)
        hooks = [ReportAllocationsHook(), *input_hooks]
        return Run(graph, spec, creator, hooks, close=lambda: _forget_gradients(graph))

    def export(self, receiver_fns: dict[str, ReceiverFn], start: Start, directory: str, as_text: bool) -> None:
        builder = v1.saved_model.Builder(directory)
        for mode, receiver_fn in receiver_fns.items():
            with _new_graph(start.config, None) as graph:
                receiver = receiver_fn()
                with self._warm_starting(start.checkpoint):
                    spec = self._spec(receiver.features, getattr(receiver, "labels", None), mode, start)
                if spec.train_op is not None:
                    private_tensorflow.add_train_op(builder, spec.train_op)
                meta_graph = _meta_graph(mode, receiver, spec, start.checkpoint)
                with v1.Session(config=start.config.session_config) as session:
                    if start.checkpoint is None:
                        init_op = spec.scaffold.init_op or v1.global_variables_initializer()
                        session.run(init_op, spec.scaffold.init_feed_dict)
                    else:
                        _restore_to_export(meta_graph["saver"], session, mode, start.checkpoint)
                    if mode == next(iter(receiver_fns)):
                        builder.add_meta_graph_and_variables(session, **meta_graph)
                    else:
                        builder.add_meta_graph(**meta_graph)
            _forget_gradients(graph)
        builder.save(as_text)

    @contextlib.contextmanager
    def _warm_starting(self, checkpoint_path: str | None) -> Iterator[None]:
        with warm_start.noting_layer_variables() as layer_variables:
            yield
        if checkpoint_path is None and self._warm_start_from is not None:
            warm_start.apply(self._warm_start_from, layer_variables)

    def call(self, features: Nest, labels: Nest, mode: str, config: RunConfig, params: Params) -> EstimatorSpec:
        """Calls model_fn in the default graph, with the arguments that it accepts, and returns its `EstimatorSpec`.

        In evaluation, it has the metrics of `with_metrics`, too. Raises ValueError if it returns anything else, or does
        not take labels although there are some.
        """
        spec = self._called(features, labels, mode, config, params)
        if mode != ModeKeys.EVAL:
            return spec
        return self._with_metrics(spec, features, labels, config)

    def _spec(self, features: Nest, labels: Nest, mode: str, start: Start, reports_loss: bool = False) -> EstimatorSpec:
        """Like `call`, with an evaluation's scaffold made to initialize the metrics' variables, perhaps of the loss."""
        if mode == ModeKeys.PREDICT:
            labels = None
        spec = self._called(features, labels, mode, start.config, start.params)
        if mode != ModeKeys.EVAL:
            return spec
        own_locals = v1.local_variables()
        spec = self._with_metrics(spec, features, labels, start.config)
        if reports_loss:
            spec = _with_loss_metric(spec)
        return spec._replace(scaffold=_initialising_more_than(own_locals, spec.scaffold))

    def _with_metrics(self, spec: EstimatorSpec, features: Nest, labels: Nest, config: RunConfig) -> EstimatorSpec:
        parts = {"features": features, "labels": labels, "predictions": spec.predictions}
        return spec._replace(eval_metric_ops=spec.eval_metric_ops | metrics_of(self._metric_fns, parts, config))

    def _called(self, features: Nest, labels: Nest, mode: str, config: RunConfig, params: Params) -> EstimatorSpec:
        if labels is not None and "labels" not in self._names:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        offered = {"features": features, "labels": labels, "mode": mode, "params": params, "config": config}
        log.info("Calling model_fn.")
        keras_session = KerasSession(config and config.session_config)  # programs may call a model_fn without config
        with private_tf_keras.running_in(keras_session):
            spec = self._model_fn(**taken_by(self._model_fn, offered))
        log.info("Done calling model_fn.")
        if not isinstance(spec, EstimatorSpec):
            raise ValueError(f"model_fn should return an EstimatorSpec, got: {spec!r}")
        if initial_values := keras_session.initial_values():
            private_tensorflow.add_init_feeds(spec.scaffold, initial_values)
        return spec


def _looped_steps(spec: EstimatorSpec, config: RunConfig, last_step: int | None, hooks: Hooks) -> LoopedSteps | None:
    """Returns the steps of a training or evaluation, whose number or last one is `last_step`; needs their graph."""
    if spec.mode == ModeKeys.PREDICT:
        return None
    tf.constant(1, tf.int64, name=step_outputs.STEPS)  # of a single step
    if spec.mode == ModeKeys.TRAIN:
        hooks = [*hooks, *spec.training_chief_hooks, *spec.training_hooks]
        limits = CallLimits(config, hooks, last_step, spec.loss)
        return LoopedSteps([spec.train_op], spec.loss, v1.train.get_global_step(), limits, hooks, config.session_config)
    hooks = [*hooks, *spec.evaluation_hooks]
    updates = [update for _, update in spec.eval_metric_ops.values()]
    batches = EvaluationLimits(last_step, hooks, config.steps_per_loop == 1)
    return LoopedSteps(updates, None, None, batches, hooks, config.session_config)


def _session_functions(run: Run, predictions: Nest, fed: list[tf.Tensor]) -> Predictor:
    with run.as_default():
        session = v1.train.MonitoredSession(run.session_creator, run.spec.prediction_hooks)

    def function(features: Nest) -> Nest:
        parts = tf.nest.flatten(features, expand_composites=True)
        with run.as_default():  # symbolic tensors are dict keys in graph mode only
            return session.run(predictions, dict(zip(fed, map(np.asarray, parts), strict=True)))

    def close() -> None:
        with run.as_default():
            session.close()
        run.close()

    return function, close


def _forget_gradients(graph: tf.Graph) -> None:
    if any(op.type == "IdentityN" for op in graph.get_operations()):  # of tf.custom_gradient
        private_tensorflow.forget_gradients(graph)


def _meta_graph(mode: str, receiver: InputReceiver, spec: EstimatorSpec, checkpoint_path: str | None) -> dict[str, Any]:
    saver = spec.scaffold.saver
    if not isinstance(saver, v1.train.Saver):  # an object-based one cannot be written into a MetaGraph
        saver = Saver(checkpoint_path)
    if mode == ModeKeys.PREDICT:
        outputs = spec.export_outputs or {}
    else:
        outputs = {mode: _OUTPUTS[mode](spec.loss, spec.predictions, spec.eval_metric_ops)}
    return {
        "tags": [_TAGS[mode]],
        "signature_def_map": signatures(receiver, outputs, serving_only=mode == ModeKeys.PREDICT),
        "assets_collection": v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
        "main_op": spec.scaffold.local_init_op or v1.train.Scaffold.default_local_init_op(),
        "saver": saver,
        "strip_default_attrs": True,
    }


def _restore_to_export(saver: Any, session: tf.compat.v1.Session, mode: str, path: str) -> None:
    try:
        saver.restore(session, path)
    except tf.errors.NotFoundError as error:  # a ValueError in tf.estimator, too
        lines = error.message.splitlines()
        lack = next((line for line in lines if line.startswith("Key ")), lines[0])
        raise CheckpointError(
            f"Could not load all requested variables from checkpoint {path} in mode {mode!r}: {lack}; make model_fn "
            "use no others than it trains."
        ) from error


def _with_loss_metric(spec: EstimatorSpec) -> EstimatorSpec:
    for name in ("loss", v1.GraphKeys.GLOBAL_STEP):
        if name in spec.eval_metric_ops:
            raise ValueError(
                f'Metric with name "{name}" is not allowed, because Estimator already defines a default metric with '
                "the same name."
            )
    metrics = spec.eval_metric_ops | {"loss": v1.metrics.mean(spec.loss)}
    update = tf.group(*(update for _, update in metrics.values()))
    return spec._replace(eval_metric_ops={name: (value, update) for name, (value, _) in metrics.items()})


def _initialising_more_than(known: list[tf.Variable], scaffold: Scaffold) -> Scaffold:
    # EstimatorSpec turns a Keras metric's variables into local ones after model_fn has created its local_init_op.
    if scaffold.local_init_op is None:
        return scaffold
    metric_variables = v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)
    left_out = {id(variable) for variable in known} - {id(variable) for variable in metric_variables}
    more = [variable.initializer for variable in v1.local_variables() if id(variable) not in left_out]
    return combine_scaffolds([scaffold], local_init_ops=more)


def _checked_names(model_fn: ModelFn, params: Params) -> list[str]:
    names = argument_names(model_fn)
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    unexpected = [name for name in names if name not in _ARGUMENTS]
    if unexpected:
        raise ValueError(
            f"model_fn ({model_fn}) has following not expected args: {unexpected}; it can have {list(_ARGUMENTS)}."
        )
    if params is not None and "params" not in names:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed to Estimator."
        )
    if params is None and "params" in names:
        log.warning("Estimator's model_fn (%s) includes params argument, but params are not passed to it.", model_fn)
    return names


@contextlib.contextmanager
def _new_graph(config: RunConfig, strategy: tf.distribute.Strategy | None) -> Iterator[tf.Graph]:
    with contextlib.ExitStack() as stack:
        graph = stack.enter_context(LoopedGraph().as_default())
        strategy = in_graphs(strategy)  # inside the graph, the caller's scope no longer applies
        stack.enter_context(graph.device(config.device_fn or _parameter_server_devices(config)))
        stack.enter_context(strategy.scope())
        stack.enter_context(private_tensorflow.averaging_losses(strategy))
        v1.set_random_seed(config.tf_random_seed)
        v1.train.create_global_step()
        # TensorFlow creates this op when a hook first needs it. Like tf.estimator, create it before all other ops:
        # the seed of a random op depends on the number of ops before it, so random values equal tf.estimator's.
        global_step_read()
        yield graph


def _read_global_step_before_updates(train_op: tf.Operation | tf.Tensor) -> None:
    """Lets hooks fetch the global step from before the update of the same step, as TensorFlow's hooks assume."""
    # Nothing else orders the two: in tf.estimator, hooks fetched the updated step in 5 to 10 % of steps of a small
    # model. Only updates by the `train_op` wait: initializers, and the restore op of model_fn's own Saver, cannot read
    # it yet.
    graph = v1.get_default_graph()
    step, read = v1.train.get_global_step(), global_step_read().op
    reads = [read, graph.as_graph_element(step).op]  # hooks may fetch a resource variable, too
    ops = graph.get_operations()
    updates = ancestors([getattr(train_op, "op", train_op)]).difference(ops[: ops.index(read) + 1])
    for variable in tf.distribute.get_strategy().experimental_local_results(step):
        for op in variable.op.outputs[0].consumers():
            if op in updates and op.type != "ReadVariableOp":
                private_tensorflow.run_after(op, reads)


def _add_saver(scaffold: Scaffold, config: RunConfig, path: str | None) -> None:
    """Adds a saver of all variables, unless model_fn has one; CheckpointError if `path` has some of other shapes."""
    if scaffold.saver is not None or v1.get_collection(v1.GraphKeys.SAVERS):
        return
    saver = Saver(
        path,
        max_to_keep=config.keep_checkpoint_max,
        keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
        defer_build=True,
        save_relative_paths=True,
    )
    v1.add_to_collection(v1.GraphKeys.SAVERS, saver)
    if path is not None:
        check_same_shapes(path)


def _parameter_server_devices(config: RunConfig) -> Callable[[tf.Operation], str] | None:
    if not config.num_ps_replicas:
        return None
    here = f"/job:{config.task_type}/task:{config.task_id}"
    return v1.train.replica_device_setter(config.num_ps_replicas, worker_device=here, cluster=config.cluster_spec)
