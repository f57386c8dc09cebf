"""ModeKeys, EstimatorSpec, and the interface between a model and the Estimator's loop."""

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_train._engine.argument_names import taken_by
from estimator_train._engine.cluster.synchronous import Agreement
from estimator_train._engine.exports.outputs import ExportOutput, PredictOutput
from estimator_train._engine.exports.receivers import ReceiverFn
from estimator_train._engine.hooks import check_hooks
from estimator_train._engine.run_config import RunConfig
from estimator_train._engine.types import Hooks, InputFn, Metric, MetricFn, MetricPair, Nest, Params, PredictFunctions

v1 = tf.compat.v1
_DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class ModeKeys:
    """The three modes of a model, as strings; a model_fn gets one of them as `mode`.

        >>> et.ModeKeys.PREDICT
        'infer'

    A model is exported for serving in PREDICT.
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class EstimatorSpec(
    NamedTuple(
        "EstimatorSpec",
        [
            ("mode", str),
            ("predictions", Any),  # a tensor, or a dict of names to tensors
            ("loss", tf.Tensor | None),
            ("train_op", tf.Operation | tf.Tensor | None),
            ("eval_metric_ops", dict[str, Any]),
            ("export_outputs", dict[str, ExportOutput] | None),
            ("training_chief_hooks", tuple[tf.compat.v1.train.SessionRunHook, ...]),
            ("training_hooks", tuple[tf.compat.v1.train.SessionRunHook, ...]),
            ("scaffold", tf.compat.v1.train.Scaffold),
            ("evaluation_hooks", tuple[tf.compat.v1.train.SessionRunHook, ...]),
            ("prediction_hooks", tuple[tf.compat.v1.train.SessionRunHook, ...]),
        ],
    )
):
    """The tensors, ops and hooks of a model in one mode. A model_fn returns it, as in the example of `Estimator`.

        >>> spec = et.EstimatorSpec(et.ModeKeys.EVAL, loss=tf.constant(0.5))
        >>> spec.predictions
        {}

    Args:
      mode: one of `ModeKeys`; with None, no argument is required.
      predictions: a tensor, or a dict of names to tensors; required in PREDICT.
      loss: a scalar tensor; required in TRAIN and EVAL.
      train_op: the op or tensor that runs a training step; required in TRAIN.
      eval_metric_ops: dict of metric names to (value tensor, update op) pairs, or to Keras metrics whose
        `update_state` has been called, which are turned into such pairs.
      export_outputs: dict of signature names to `export.ExportOutput`; if there are several, one must be called
        "serving_default". In PREDICT, None exports the predictions as `export.PredictOutput`.
      training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks: iterables of `SessionRunHook`.
      scaffold: a `tf.compat.v1.train.Scaffold`; None creates one.

    Raises:
      ValueError: If an argument that the mode requires is missing, the loss is not a scalar, a Keras metric has not
        been updated, or a tensor does not belong to the default graph.
      TypeError: If an argument has the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: tf.Tensor | dict[Any, Any] | None = None,
        loss: tf.Tensor | None = None,
        train_op: tf.Operation | tf.Tensor | None = None,
        eval_metric_ops: dict[str, Any] | None = None,
        export_outputs: dict[str, ExportOutput] | None = None,
        training_chief_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        training_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        scaffold: tf.compat.v1.train.Scaffold | None = None,
        evaluation_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
        prediction_hooks: Iterable[tf.compat.v1.train.SessionRunHook] | None = None,
    ) -> "EstimatorSpec":
        if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT, None):
            raise ValueError(f"mode must be one of ModeKeys, given: {mode!r}")
        predictions = _checked_predictions(predictions, mode)
        chief, training, evaluation, prediction = (
            check_hooks(given, "All hooks must be SessionRunHook instances")
            for given in (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)
        )
        if not isinstance(scaffold, v1.train.Scaffold | None):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold!r}")
        loss, train_op = _checked_loss(loss, mode), _checked_train_op(train_op, mode)
        metrics, outputs = _checked_metrics(eval_metric_ops), _checked_export_outputs(export_outputs, predictions, mode)
        tensors = mode, predictions, loss, train_op, metrics, outputs
        scaffold = scaffold or v1.train.Scaffold()
        spec = super().__new__(cls, *tensors, chief, training, scaffold, evaluation, prediction)
        _check_graph(spec)
        return spec

    def _replace(self, **changes: Any) -> "EstimatorSpec":
        """Returns a copy with `changes`, checked by the constructor. Raises ValueError if the mode changes."""
        if changes.get("mode", self.mode) != self.mode:
            raise ValueError(f"mode of EstimatorSpec cannot be changed; it is {self.mode!r}.")
        return EstimatorSpec(**(self._asdict() | changes))


# A model_fn gets whichever of features, labels, mode, params and config it accepts.
ModelFn = Callable[..., EstimatorSpec]


@dataclasses.dataclass(frozen=True)
class Run:
    """A model prepared for one call of train, evaluate or predict, for the Estimator's loop to run."""

    graph: tf.Graph  # that hooks see
    spec: EstimatorSpec  # in EVAL, `eval_metric_ops` includes the loss
    session_creator: tf.compat.v1.train.SessionCreator  # its session restores the state and runs the steps
    input_hooks: Hooks = ()  # run before the user's, such as the one that initializes the input's iterator
    agreement: Agreement | None = None  # of a training in several synchronous processes; None if there is only one
    close: Callable[[], None] = lambda: None  # gives back the variables that no other run may use meanwhile

    def as_default(self) -> contextlib.AbstractContextManager[tf.Graph]:
        """Returns a context manager that makes the run's graph the default; drive the run inside it."""
        return self.graph.as_default()


class Start(NamedTuple):
    """An Estimator's config and params, and the prefix of the checkpoint that a run starts from, if there is one."""

    config: RunConfig
    params: Params
    checkpoint: str | None

    def strategy(self, mode: str) -> tf.distribute.Strategy | None:
        return {ModeKeys.TRAIN: self.config.train_distribute, ModeKeys.EVAL: self.config.eval_distribute}.get(mode)


class PreparedModel(abc.ABC):
    """The interface that the Estimator's loop requires of every kind of model."""

    @property
    @abc.abstractmethod
    def has_initial_values(self) -> bool:
        """Whether the untrained model has useful weights, and may be exported without a checkpoint."""

    @abc.abstractmethod
    def prepare(self, mode: str, input_fn: InputFn, start: Start, last_step: int | None, hooks: Hooks = ()) -> Run:
        """Returns a `Run` of the model; threads may prepare and drive several at the same time.

        `last_step` is the global step at which TRAIN ends, or None. The caller's `hooks` may add to the Run's graph.
        """

    @abc.abstractmethod
    def predict_functions(self, start: Start, select: Callable[[Nest], Nest]) -> PredictFunctions:
        """Loads a checkpoint to predict batches that are in memory, of tensors or numpy arrays.

        `select` is a function that picks the requested predictions from the dict of all.
        """

    @contextlib.contextmanager
    def just_saved(self, path: str | None) -> Iterator[None]:
        """Wraps this thread's evaluation of the checkpoint at prefix `path` while the training that saved it waits."""
        yield

    @abc.abstractmethod
    def export(self, receiver_fns: dict[str, ReceiverFn], start: Start, directory: str, as_text: bool) -> None:
        """Writes a SavedModel into `directory`, with a MetaGraph for each mode of the dict `receiver_fns`."""

    @abc.abstractmethod
    def with_metrics(self, metric_fn: MetricFn) -> "PreparedModel":
        """Returns the same model with the metrics of `metric_fn` added; see `extenders.add_metrics`."""


def metrics_of(metric_fns: Iterable[MetricFn], parts: dict[str, Nest], config: RunConfig) -> dict[str, MetricPair]:
    """Calls the functions given to `add_metrics` with the `parts` of a batch that they take; returns their metrics."""
    metrics = {}
    for metric_fn in metric_fns:
        metrics |= metric_fn(**taken_by(metric_fn, parts | {"config": config}))
    return {name: metric_pair(name, metric) for name, metric in metrics.items()}


def metric_pair(name: str, metric: Metric) -> MetricPair:
    """Returns a metric as a (value, update op) pair; raises ValueError if it is one of Keras that was not updated."""
    if isinstance(metric, tuple):
        return metric
    if not metric.updates:
        raise ValueError(f'Please call update_state(...) on the "{metric.name}" metric, eval_metric_ops[{name!r}].')
    known = {id(variable) for variable in v1.local_variables()}
    for variable in metric.variables:  # Keras adds them to no collection, so sessions would not initialize them
        if id(variable) not in known:
            v1.add_to_collections([v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES], variable)
    return metric.result(), tf.group(metric.updates)


def _checked_predictions(predictions: Nest, mode: str) -> Nest:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions.")
        return {}
    named = {"predictions": predictions}
    if isinstance(predictions, dict):
        named = {f"predictions[{name}]": tensor for name, tensor in predictions.items()}
    for name, tensor in named.items():
        _check_is_tensor(tensor, name)
    return predictions


def _checked_loss(loss: tf.Tensor | None, mode: str) -> tf.Tensor | None:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    _check_is_tensor(loss, "loss")
    if loss.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {loss}; reduce it, for example with tf.reduce_mean.")
    return loss if loss.shape.rank == 0 else tf.reshape(loss, [])


def _checked_train_op(train_op: tf.Operation | tf.Tensor | None, mode: str) -> tf.Operation | tf.Tensor | None:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        return None
    if not isinstance(train_op, tf.Operation) and not tf.is_tensor(train_op):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op!r}")
    return train_op


def _checked_metrics(metrics: dict[str, Metric] | None) -> dict[str, Metric]:
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics!r}")
    for name, metric in metrics.items():
        is_keras = hasattr(metric, "result") and hasattr(metric, "updates")
        if not is_keras and not (isinstance(metric, tuple) and len(metric) == 2):
            raise TypeError(
                "Values of eval_metric_ops must be (metric_value, update_op) tuples or tf_keras metrics, "
                f"given: {metric!r} for key: {name}"
            )
        if not is_keras:
            for part in tf.nest.flatten(metric):  # a value may be several tensors
                if not isinstance(part, tf.Operation):
                    _check_is_tensor(part, f"eval_metric_ops[{name!r}]")
    # Only unit tests build specs eagerly, and they never run the metrics.
    if tf.executing_eagerly():
        return dict(metrics)
    return {name: metric_pair(name, metric) for name, metric in metrics.items()}


def _checked_export_outputs(
    outputs: dict[str, ExportOutput] | None, predictions: Nest, mode: str
) -> dict[str, ExportOutput] | None:
    if mode != ModeKeys.PREDICT:
        return outputs  # not exported, so they may be of any kind
    if outputs is None:
        return {_DEFAULT_SIGNATURE: PredictOutput(predictions)}
    if not isinstance(outputs, dict):
        raise TypeError(f"`export_outputs` must be dict, received: {outputs!r}")
    for name, output in outputs.items():
        if not isinstance(output, ExportOutput):
            raise TypeError(
                f"Values in `export_outputs` must be ExportOutput objects, received: {output!r} for key: {name}"
            )
    if len(outputs) == 1:
        return {_DEFAULT_SIGNATURE: next(iter(outputs.values()))} | outputs
    if outputs and _DEFAULT_SIGNATURE not in outputs:
        raise ValueError(
            f"Multiple `export_outputs` were provided, but none is called {_DEFAULT_SIGNATURE!r}, "
            f"the signature that is used by default: {sorted(outputs)}"
        )
    return dict(outputs)


def _check_is_tensor(value: Any, name: str) -> None:
    if not tf.is_tensor(value) or isinstance(value, tf.SparseTensor | tf.RaggedTensor):
        raise TypeError(f"{name} must be Tensor, given: {value!r}")


def _check_graph(spec: EstimatorSpec) -> None:
    """Raises ValueError if a tensor or op of the spec is not in the default graph. Does nothing in eager mode."""
    if tf.executing_eagerly():
        return
    metrics = tf.nest.flatten([metric for metric in spec.eval_metric_ops.values() if isinstance(metric, tuple)])
    parts = {
        "prediction values": tf.nest.flatten(spec.predictions, expand_composites=True),
        "loss": [spec.loss],
        "train_op": [spec.train_op],
        "eval_metric_ops": metrics,
    }
    for name, elements in parts.items():
        for element in elements:
            if element is not None and getattr(element, "graph", None) is not v1.get_default_graph():
                raise ValueError(
                    f'{name} with "{element.name}" must be from the default graph: create all tensors and ops inside '
                    "model_fn, from its features and labels, not beforehand or in another tf.Graph."
                )
