"""ModeKeys, EstimatorSpec, and the interface between a model and the Estimator's loop."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_train.distribution.synchronous import Agreement
from estimator_train.export import ExportOutput, PredictOutput

v1 = tf.compat.v1
_DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

# Types that public signatures share. An input_fn is called with those of mode, params, config, input_context it names.
InputFn = Callable[..., tf.data.Dataset]
FeatureColumn = Any  # TensorFlow has no public class for what tf.feature_column makes


class ModeKeys:
    """The three modes of a model, as strings."""

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
    """The tensors, ops and hooks of a model in one mode.

    Args:
      mode: one of `ModeKeys`; None requires nothing.
      predictions: a tensor, or a dict of names to tensors. PREDICT needs it.
      loss: a tensor of one element. TRAIN and EVAL need it.
      train_op: the op or tensor that makes a step. TRAIN needs it.
      eval_metric_ops: dict of metric names to (value tensor, update op) pairs or to Keras metrics that are updated,
        which become such pairs.
      export_outputs: dict of signature names to `export.ExportOutput`; of several, one is "serving_default". None in
        PREDICT: the predictions, as `export.PredictOutput`.
      training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks: iterables of `SessionRunHook`.
      scaffold: a `tf.compat.v1.train.Scaffold`; None: a new one.

    Raises:
      ValueError: what the mode needs is missing, the loss is no scalar, a Keras metric is not updated, or a tensor is
        of another graph than the default one.
      TypeError: an argument of another type.
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
    ) -> EstimatorSpec:
        if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT, None):
            raise ValueError(f"mode must be one of ModeKeys, given: {mode!r}")
        predictions = _checked_predictions(predictions, mode)
        hooks = [
            check_hooks(given, "All hooks must be SessionRunHook instances")
            for given in (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)
        ]
        if not isinstance(scaffold, v1.train.Scaffold | None):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold!r}")
        spec = super().__new__(
            cls,
            mode,
            predictions,
            _checked_loss(loss, mode),
            _checked_train_op(train_op, mode),
            _checked_metrics(eval_metric_ops),
            _checked_export_outputs(export_outputs, predictions, mode),
            hooks[0],
            hooks[1],
            scaffold or v1.train.Scaffold(),
            hooks[2],
            hooks[3],
        )
        _check_graph(spec)
        return spec

    def _replace(self, **changes):
        """A copy with `changes`, checked as the constructor checks. Raises ValueError for another mode."""
        if changes.get("mode", self.mode) != self.mode:
            raise ValueError(f"mode of EstimatorSpec cannot be changed; it is {self.mode!r}.")
        return EstimatorSpec(**(self._asdict() | changes))


# A model_fn is called with those of features, labels, mode, params and config that it names.
ModelFn = Callable[..., EstimatorSpec]


@dataclasses.dataclass(frozen=True)
class Run:
    """A model made ready for one train, evaluate or predict: what the Estimator's loop drives.

    Attributes:
      graph: the `tf.Graph` that hooks see.
      spec: its `EstimatorSpec`. In EVAL, `eval_metric_ops` holds the loss too.
      session_creator: the `tf.compat.v1.train.SessionCreator` whose session restores the state and runs the steps.
      input_hooks: hooks that come before the user's: what the input needs, such as an iterator's initialiser, and a
        model_fn's report of memory.
      agreement: the `synchronous.Agreement` of a training in several synchronous processes; None: there is one process.
    """

    graph: tf.Graph
    spec: EstimatorSpec
    session_creator: tf.compat.v1.train.SessionCreator
    input_hooks: tuple = ()
    agreement: Agreement | None = None

    def as_default(self):
        """A context manager in which the run is driven: the graph is the default one."""
        return self.graph.as_default()


class PreparedModel(abc.ABC):
    """The interface that the Estimator's loop needs of every kind of model.

    Attributes:
      has_initial_values: whether it is worth something before it is trained, and so can be exported.
    """

    has_initial_values: bool

    @abc.abstractmethod
    def prepare(self, mode, input_fn, config, params, checkpoint_path, last_step, hooks=()):
        """A `Run` of the model.

        Args:
          mode: one of `ModeKeys`.
          input_fn, config, params: the Estimator's.
          checkpoint_path: prefix of the checkpoint to start from; None: the model's initial values.
          last_step: the global step at which TRAIN ends, or None.
          hooks: those of the caller's, which may add to the Run's graph.
        """

    @abc.abstractmethod
    def predict_functions(self, config, params, checkpoint_path, select):
        """Loads a checkpoint to predict batches that are in memory.

        Args:
          config, params, checkpoint_path: as of `prepare`.
          select: returns those predictions, of all that it is given by name, that are wanted.

        Returns:
          A function of the `tf.TypeSpec`s of a batch of features, in their structure. It returns a function of such
          batches, tensors and numpy arrays, that gives the predictions as numpy arrays, and a function that frees what
          the first one holds.
        """

    @contextlib.contextmanager
    def just_saved(self, path):
        """Around what evaluates the checkpoint at prefix `path` while the training that has saved it stands still."""
        yield

    @abc.abstractmethod
    def export(self, receiver_fns, config, params, checkpoint_path, directory, as_text):
        """Writes a SavedModel into `directory`, with a MetaGraph for each mode of the dict `receiver_fns`."""

    @abc.abstractmethod
    def with_metrics(self, metric_fn):
        """The same model, evaluated by the metrics of `metric_fn`, too; see `extenders.add_metrics`."""


class EpochHook(tf.compat.v1.train.SessionRunHook):
    """A hook that divides the training of a Keras model into epochs: its loss and metrics run over each, as in fit.

    Attributes:
      steps_per_epoch: global steps in an epoch; None: evaluations end them.
    """

    steps_per_epoch: int | None

    def attach(self, model: Any, reset_metrics: Callable[[], None], config: Any) -> None:
        """Called before `begin` with the model that trains, a function that resets its metrics, and the RunConfig."""
        raise NotImplementedError

    def evaluated(self, metrics: dict[str, Any]) -> None:
        """Called by `train_and_evaluate` with the metrics of an evaluation, in or before the step's `after_run`."""
        raise NotImplementedError


def check_hooks(hooks, message="Hooks must be a SessionRunHook"):
    """`hooks`, any iterable or None, as a tuple. Raises TypeError with `message` for one that is no SessionRunHook."""
    hooks = tuple(hooks or ())
    for hook in hooks:
        if not isinstance(hook, v1.train.SessionRunHook):
            raise TypeError(f"{message}, given: {hook}")
    return hooks


def argument_names(function):
    """The names of the arguments that `function` takes, but for `*args`, `**kwargs` and what a partial has settled."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    bound = getattr(function, "keywords", {})
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind not in kinds and parameter.name not in bound]


def metrics_of(metric_fns, parts, config):
    """The metrics of functions given to `add_metrics`, a dict of names to pairs.

    `parts`: a dict of "features", "labels" and "predictions" to tensors.
    """
    offered = parts | {"config": config}
    metrics = {}
    for metric_fn in metric_fns:
        metrics |= metric_fn(**{name: offered[name] for name in argument_names(metric_fn)})
    return {name: metric_pair(name, metric) for name, metric in metrics.items()}


def metric_pair(name, metric):
    """A value of eval_metric_ops as (value tensor, update op).

    Raises:
      ValueError: a Keras metric without an update.
    """
    if isinstance(metric, tuple):
        return metric
    if not metric.updates:
        raise ValueError(f'Please call update_state(...) on the "{metric.name}" metric, {name} of eval_metric_ops.')
    known = {id(variable) for variable in v1.local_variables()}
    for variable in metric.variables:  # Keras puts them in no collection, so that no session would initialise them
        if id(variable) not in known:
            v1.add_to_collections([v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES], variable)
    return metric.result(), tf.group(metric.updates)


def _checked_predictions(predictions, mode):
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions.")
        return {}
    named = predictions if isinstance(predictions, dict) else {"predictions": predictions}
    for name, tensor in named.items():
        _check_is_tensor(tensor, f"predictions[{name}]" if isinstance(predictions, dict) else name)
    return predictions


def _checked_loss(loss, mode):
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    _check_is_tensor(loss, "loss")
    if loss.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {loss}; reduce it, with tf.reduce_mean for one.")
    return loss if loss.shape.rank == 0 else tf.reshape(loss, [])


def _checked_train_op(train_op, mode):
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        return None
    if not isinstance(train_op, tf.Operation) and not tf.is_tensor(train_op):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op!r}")
    return train_op


def _checked_metrics(metrics):
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
    # Eager tensors are of unit tests: nothing runs the metrics there.
    if tf.executing_eagerly():
        return dict(metrics)
    return {name: metric_pair(name, metric) for name, metric in metrics.items()}


def _checked_export_outputs(outputs, predictions, mode):
    if outputs is None:
        return {_DEFAULT_SIGNATURE: PredictOutput(predictions)} if mode == ModeKeys.PREDICT else None
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


def _check_is_tensor(value, name):
    if not tf.is_tensor(value) or isinstance(value, tf.SparseTensor | tf.RaggedTensor):
        raise TypeError(f"{name} must be Tensor, given: {value!r}")


def _check_graph(spec):
    """Raises ValueError for a tensor or op of the spec that is not of the default graph; eager mode has none."""
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
                    f'{name} with "{element.name}" must be from the default graph: make every tensor and op inside '
                    "model_fn, from the features and labels that it is given, and not before or in another tf.Graph."
                )
