"""Turns the result of an input_fn into features and labels of a v1 graph."""

from typing import Any, TypeAlias

import tensorflow as tf

from estimator_train._engine.distribution.replica_input import call_input_fn, distribute_in_graph
from estimator_train._engine.host.cluster_task import TaskType
from estimator_train._engine.input_fns.protocols import changed, without_changes
from estimator_train._engine.input_fns.returned import are_arrays, as_pair, dataset_of_arrays, explaining_outside_data
from estimator_train._engine.model_fn import ModeKeys
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.types import InputFn, Nest, Session, SessionRunContext, SessionRunHook, SessionRunValues

v1 = tf.compat.v1

Input: TypeAlias = tuple[Nest, Nest, tuple[SessionRunHook, ...]]  # features, labels, and hooks that run the input


class _StartInput(SessionRunHook):
    def __init__(self, start_op: tf.Operation) -> None:
        self._start_op = start_op

    def after_create_session(self, session: Session, coord: tf.train.Coordinator) -> None:
        session.run(self._start_op)


class _StopAfterBatch(SessionRunHook):
    """Stops an evaluation or prediction after one batch, for inputs that are arrays."""

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        run_context.request_stop()


@explaining_outside_data()
def features_and_labels(input_fn: InputFn, **offered: Any) -> Input:
    """Returns (features, labels, hooks) of `input_fn`; features and labels are per replica if there is a strategy."""
    if tf.distribute.has_strategy():
        batch, start = distribute_in_graph(
            tf.distribute.get_strategy(),
            lambda context: _dataset(_result(input_fn, input_context=context, **offered), offered["mode"]),
            drop_incomplete=offered["mode"] == ModeKeys.TRAIN,
        )
        return *as_pair(batch), (_StartInput(start),)
    result = _result(input_fn, input_context=_input_context(offered["mode"], offered["config"]), **offered)
    if not isinstance(result, tf.data.Dataset):
        if are_arrays(result):  # each training step gets all of them
            return *as_pair(result), () if offered["mode"] == ModeKeys.TRAIN else (_StopAfterBatch(),)
        if offered["mode"] == ModeKeys.PREDICT and not _may_end(result):
            tf.get_logger().warning(
                "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means predict yields forever."
            )
        return *as_pair(result), ()
    with tf.device("/cpu:0"):
        iterator = v1.data.make_initializable_iterator(result)
        return *as_pair(iterator.get_next()), (_StartInput(iterator.initializer),)


def _result(input_fn: InputFn, **offered: Any) -> Any:
    input_fn, changes = without_changes(input_fn)
    result = call_input_fn(input_fn, **offered)
    if offered["mode"] != ModeKeys.TRAIN or not changes:
        return result
    with tf.device("/cpu:0"):
        for change in changes:
            result = changed(result, change)
    if isinstance(result.element_spec, tuple) and len(result.element_spec) > 2:
        raise ValueError(
            "class_weighted is for Keras models; for a model_fn, let the input_fn return the weights of its examples "
            "as a feature, such as the weight_column of a head"
        )
    return result


def _may_end(result: Nest) -> bool:
    """Returns whether tensors come from an iterator, whose dataset the input_fn keeps, or from a queue."""
    tensors = [value for value in tf.nest.flatten(result) if isinstance(value, tf.Tensor)]
    is_read = any(tensor.op.type == "IteratorGetNext" for tensor in tensors)
    return is_read or bool(v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS))


def _input_context(mode: str, config: RunConfig) -> tf.distribute.InputContext:
    """Returns the InputContext of a single process, or of one of several workers with parameter servers."""
    if mode != ModeKeys.TRAIN or config.num_worker_replicas < 2:
        return tf.distribute.InputContext()
    # Not `global_id_in_cluster`, as in tf.estimator: it also counts an evaluator that the cluster lists.
    jobs = [job for job in (TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER) if job in config.cluster_spec.jobs]
    pipelines = [(job, index) for job in jobs for index in config.cluster_spec.task_indices(job)]
    return tf.distribute.InputContext(
        num_input_pipelines=config.num_worker_replicas,
        input_pipeline_id=pipelines.index((config.task_type, config.task_id)),
        num_replicas_in_sync=config.num_worker_replicas,
    )


def _dataset(result: Nest | tf.data.Dataset, mode: str) -> tf.data.Dataset:
    if isinstance(result, tf.data.Dataset):
        return result
    if not are_arrays(result):
        raise ValueError(
            "input_fn must return a tf.data.Dataset under a distribution strategy, not what its iterator's get_next() "
            f"returns, got: {result!r}"
        )
    return dataset_of_arrays(result, endless=mode == ModeKeys.TRAIN)
