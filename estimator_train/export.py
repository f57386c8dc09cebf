"""Defines the inputs and outputs of a SavedModel: input receivers, export outputs, and signatures built from them."""

from __future__ import annotations

import abc
import collections
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimator_train.host.files import remove, this_process

if TYPE_CHECKING:
    from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef

v1 = tf.compat.v1
log = tf.get_logger()

__all__ = [
    "ClassificationOutput",
    "EvalOutput",
    "ExportOutput",
    "PredictOutput",
    "RegressionOutput",
    "ServingInputReceiver",
    "SupervisedInputReceiver",
    "TensorServingInputReceiver",
    "TrainOutput",
    "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
    "build_raw_supervised_input_receiver_fn",
]

_SUPERVISED_METHODS = {"train": "tensorflow/supervised/training", "eval": "tensorflow/supervised/eval"}


class ServingInputReceiver(
    collections.namedtuple("ServingInputReceiver", ["features", "receiver_tensors", "receiver_tensors_alternatives"])
):
    """The return value of a `serving_input_receiver_fn` for a model that takes a dict of features.

        >>> def serving_input_receiver_fn():
        ...     jpegs = tf.compat.v1.placeholder(tf.string, [None])
        ...     images = tf.map_fn(tf.io.decode_jpeg, jpegs, fn_output_signature=tf.uint8)
        ...     return et.export.ServingInputReceiver({"images": images}, {"jpegs": jpegs})

    Args:
      features: dict of str or int to the (dense, sparse or ragged) tensors that the model gets; a single tensor becomes
        `{"feature": tensor}`.
      receiver_tensors: dict of str to the tensors that a client feeds, often placeholders; a single tensor becomes
        `{"input": tensor}`.
      receiver_tensors_alternatives: dict of names to alternative `receiver_tensors`, which are fed at other points of
        the graph. Each adds signatures called `<name>:<signature>`.

    Raises:
      ValueError: If a value is not a tensor, a key has the wrong type, or the alternatives are not a dict.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: tf.Tensor | dict[Any, Any],
        receiver_tensors: tf.Tensor | dict[str, Any],
        receiver_tensors_alternatives: dict[str, Any] | None = None,
    ) -> ServingInputReceiver:
        if not isinstance(receiver_tensors_alternatives, (dict, type(None))):
            raise ValueError(f"receiver_tensors_alternatives must be a dict: {receiver_tensors_alternatives}.")
        return super().__new__(
            cls,
            _tensor_dict(features, "feature", key_types=(str, int)),
            _tensor_dict(receiver_tensors, "receiver_tensor", default_key="input"),
            receiver_tensors_alternatives
            and {
                name: _tensor_dict(tensors, "receiver_tensors_alternative", default_key="input")
                for name, tensors in receiver_tensors_alternatives.items()
            },
        )


class TensorServingInputReceiver(
    collections.namedtuple(
        "TensorServingInputReceiver", ["features", "receiver_tensors", "receiver_tensors_alternatives"]
    )
):
    """Like `ServingInputReceiver`, but for a model whose features are a single tensor, not a dict.

        >>> x = tf.ones([1, 2])
        >>> receiver = et.export.TensorServingInputReceiver(x, receiver_tensors={"x": x})

    Raises:
      ValueError: As for `ServingInputReceiver`, or if the features are a dict.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: tf.Tensor,
        receiver_tensors: tf.Tensor | dict[str, Any],
        receiver_tensors_alternatives: dict[str, Any] | None = None,
    ) -> TensorServingInputReceiver:
        if isinstance(features, dict):
            raise ValueError(f"features must be one tensor, not a dict: {features}; use ServingInputReceiver.")
        receiver = ServingInputReceiver(features, receiver_tensors, receiver_tensors_alternatives)
        return super().__new__(cls, features, *receiver[1:])


class SupervisedInputReceiver(
    collections.namedtuple("SupervisedInputReceiver", ["features", "labels", "receiver_tensors"])
):
    """The return value of an input receiver function for exporting a training or evaluation graph.

    Features and labels are each a tensor, or a dict of str or int to tensors, and are passed to the model unchanged.

        >>> x, y = tf.ones([1, 2]), tf.ones([1])
        >>> receiver = et.export.SupervisedInputReceiver({"x": x}, y, receiver_tensors={"x": x, "y": y})

    Raises:
      ValueError: If a value is not a tensor or a key has the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: tf.Tensor | dict[Any, Any],
        labels: tf.Tensor | dict[Any, Any],
        receiver_tensors: tf.Tensor | dict[str, Any],
    ) -> SupervisedInputReceiver:
        _tensor_dict(features, "feature", key_types=(str, int))
        _tensor_dict(labels, "label", key_types=(str, int))
        return super().__new__(
            cls, features, labels, _tensor_dict(receiver_tensors, "receiver_tensor", default_key="input")
        )


InputReceiver = ServingInputReceiver | TensorServingInputReceiver | SupervisedInputReceiver


def build_parsing_serving_input_receiver_fn(
    feature_spec: dict[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Returns a serving_input_receiver_fn that parses serialized `tf.train.Example`s, fed as the input `examples`.

        >>> feature_spec = {"x": tf.io.FixedLenFeature([2], tf.float32)}
        >>> receiver_fn = et.export.build_parsing_serving_input_receiver_fn(feature_spec)

    Args:
      feature_spec: dict of feature names to `tf.io.FixedLenFeature` and the like, as for `tf.io.parse_example`.
      default_batch_size: a fixed batch size; None allows any.
    """

    def serving_input_receiver_fn():
        examples = v1.placeholder(tf.string, [default_batch_size], name="input_example_tensor")
        return ServingInputReceiver(v1.io.parse_example(examples, feature_spec), {"examples": examples})

    return serving_input_receiver_fn


def build_raw_serving_input_receiver_fn(
    features: dict[str, tf.Tensor], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Returns a serving_input_receiver_fn with one input per feature, passed to the model unchanged.

        >>> receiver_fn = et.export.build_raw_serving_input_receiver_fn({"x": tf.ones([1, 2])})
        >>> with tf.Graph().as_default():
        ...     receiver_fn().features["x"].shape
        TensorShape([None, 2])

    Args:
      features: dict of str to tensors; each input gets the dtype of its tensor, and its shape except the batch size.
      default_batch_size: a fixed batch size; None allows any.
    """

    def serving_input_receiver_fn():
        placeholders = _placeholders(features, default_batch_size)
        return ServingInputReceiver(placeholders, placeholders)

    return serving_input_receiver_fn


def build_raw_supervised_input_receiver_fn(
    features: tf.Tensor | dict[str, tf.Tensor],
    labels: tf.Tensor | dict[str, tf.Tensor],
    default_batch_size: int | None = None,
) -> Callable[[], SupervisedInputReceiver]:
    """Returns an input receiver function with one input per feature and label, passed to the model unchanged.

        >>> receiver_fn = et.export.build_raw_supervised_input_receiver_fn({"x": tf.ones([1, 2])}, tf.ones([1]))
        >>> with tf.Graph().as_default():
        ...     sorted(receiver_fn().receiver_tensors)
        ['label', 'x']

    Args:
      features: a tensor, fed as the input `input`, or a dict of str to tensors.
      labels: a tensor, fed as the input `label`, or a dict of str to tensors.
      default_batch_size: a fixed batch size; None allows any.

    Raises:
      ValueError: If a feature and a label have the same name.
    """
    shared = set(_as_dict(features, "input")) & set(_as_dict(labels, "label"))
    if shared:
        raise ValueError(f"Features and labels must have distinct keys. Found overlapping keys: {shared}")

    def supervised_input_receiver_fn():
        fed_features = _placeholders(features, default_batch_size)
        fed_labels = _placeholders(labels, default_batch_size)
        fed = _as_dict(fed_features, "input") | _as_dict(fed_labels, "label")
        return SupervisedInputReceiver(fed_features, fed_labels, fed)

    return supervised_input_receiver_fn


class ExportOutput(abc.ABC):
    """Base class of the outputs of an exported model."""

    @abc.abstractmethod
    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> SignatureDef:
        """Returns the SignatureDef that maps `receiver_tensors`, a dict of str to tensors, to this output."""


class PredictOutput(ExportOutput):
    """Any outputs, served through the Predict API.

        >>> output = et.export.PredictOutput({"score": tf.constant([0.9])})

    Args:
      outputs: dict of names to tensors; a single tensor becomes `{"output": tensor}`. A name is a str, or a tuple of
        str, which is joined with "/".

    Raises:
      ValueError: If a key has the wrong type or a value is not a tensor.
    """

    def __init__(self, outputs: tf.Tensor | dict[Any, tf.Tensor]) -> None:
        self.outputs = _output_dict(outputs, "output", label="Prediction")

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> SignatureDef:
        return v1.saved_model.predict_signature_def(receiver_tensors, self.outputs)


class ClassificationOutput(ExportOutput):
    """Classes and their scores, served through the Classify API, which takes one string tensor of serialized Examples.

        >>> classes = tf.constant([["cat", "dog"]])
        >>> output = et.export.ClassificationOutput(scores=tf.constant([[0.9, 0.1]]), classes=classes)

    Args:
      scores: float tensor [batch, classes]; in the order of the class ids if there are no `classes`.
      classes: string tensor [batch, classes] of labels; best first if there are no `scores`.

    Raises:
      ValueError: If neither is given, or one is not a tensor of the right dtype.
    """

    def __init__(self, scores: tf.Tensor | None = None, classes: tf.Tensor | None = None) -> None:
        if scores is None and classes is None:
            raise ValueError("ClassificationOutput is empty: At least one of `scores` and `classes` must be defined.")
        if scores is not None and not _is_float(scores):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not (isinstance(classes, tf.Tensor) and classes.dtype == tf.string):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        self.scores = scores
        self.classes = classes

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> SignatureDef:
        examples = _only_string(receiver_tensors, "Classification")
        return v1.saved_model.classification_signature_def(examples, self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """A float tensor `value`, served through the Regress API, which takes one string tensor of serialized Examples.

        >>> output = et.export.RegressionOutput(tf.constant([[1.5]]))

    Raises:
      ValueError: If `value` is not a float tensor.
    """

    def __init__(self, value: tf.Tensor) -> None:
        if not _is_float(value):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self.value = value

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> SignatureDef:
        return v1.saved_model.regression_signature_def(_only_string(receiver_tensors, "Regression"), self.value)


class _SupervisedOutput(ExportOutput):
    """Loss, predictions and metrics, under their keys in the signature."""

    mode: str

    def __init__(
        self,
        loss: tf.Tensor | dict[Any, tf.Tensor] | None = None,
        predictions: tf.Tensor | dict[Any, tf.Tensor] | None = None,
        metrics: Any = None,
    ) -> None:
        self.loss = None if loss is None else _prefixed(_output_dict(loss, "loss"), "loss")
        self.predictions = (
            None if predictions is None else _prefixed(_output_dict(predictions, "predictions"), "predictions")
        )
        self.metrics = None if metrics is None else _metric_dict(metrics)

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> SignatureDef:
        if not receiver_tensors:
            raise ValueError(f"A {self.mode} signature needs inputs; receiver_tensors is empty.")
        outputs = {**(self.loss or {}), **(self.predictions or {}), **(self.metrics or {})}
        return v1.saved_model.build_signature_def(
            _tensor_infos(receiver_tensors), _tensor_infos(outputs), _SUPERVISED_METHODS[self.mode]
        )


class TrainOutput(_SupervisedOutput):
    """The outputs of a training graph; takes the arguments of `EvalOutput`."""

    mode = "train"


class EvalOutput(_SupervisedOutput):
    """The outputs of an evaluation graph.

        >>> list(et.export.EvalOutput(loss=tf.constant(0.5), predictions={"y": tf.constant([1.0])}).predictions)
        ['predictions/y']

    Args:
      loss: a tensor, exported as `loss`, or a dict of names to tensors, exported as `loss/<name>`.
      predictions: a tensor, exported as `predictions`, or a dict, exported as `predictions/<name>`.
      metrics: dict of names to (value, update op) pairs or Keras metrics, exported as `metrics/<name>/value` and
        `metrics/<name>/update_op`; a single pair is exported as `metrics/value` and `metrics/update_op`.

    Raises:
      ValueError: If a key is neither a str nor a tuple of str, or a value is not a tensor.
    """

    mode = "eval"


def supervised_outputs(spec):
    """Returns the export outputs of a spec: `{"train": TrainOutput}` or `{"eval": EvalOutput}`."""
    output = {"train": TrainOutput, "eval": EvalOutput}[spec.mode]
    return {spec.mode: output(spec.loss, spec.predictions, spec.eval_metric_ops)}


def signatures(receiver, export_outputs, *, serving_only=True):
    """Returns the SignatureDefs of a SavedModel, keyed `<output>`, and `<alternative>:<output>` for alternatives.

    Signatures that cannot be served are skipped and logged: Classify or Regress outputs without a single string input,
    and outputs that depend on a placeholder which the receiver does not feed.

    Args:
      receiver: one of the receivers above.
      export_outputs: dict of str to `ExportOutput`.
      serving_only: whether to skip training and evaluation signatures, for which TensorFlow Serving has no API.
    """
    alternatives = getattr(receiver, "receiver_tensors_alternatives", None) or {}
    fed = {"": receiver.receiver_tensors} | {f"{name}:": tensors for name, tensors in alternatives.items()}
    included, excluded = {}, {}
    for prefix, tensors in fed.items():
        for key, output in export_outputs.items():
            try:
                signature = output.as_signature_def(tensors)
                _check_fed(signature, tensors)
            except ValueError as error:
                excluded[f"{prefix}{key}"] = error
            else:
                included[f"{prefix}{key}"] = signature
    if serving_only:
        unservable = [key for key, signature in included.items() if not v1.saved_model.is_valid_signature(signature)]
        for key in unservable:
            excluded[key] = f"TensorFlow Serving has no API for {included.pop(key).method_name!r}"
    _log_report(included, excluded)
    return included


@contextlib.contextmanager
def new_export_directory(base, assets_extra=None):
    """Yields (a temporary directory to write a SavedModel to, its final path as bytes), and renames it at the end.

    The final path is `<base>/<Unix seconds>`. If an export with this or a later time exists, the time is one second
    after it, so the highest number is always the newest export. After an error the temporary directory is removed.

    Args:
      assets_extra: dict of paths below the SavedModel's `assets.extra` to the files to copy there.
    """
    older = exports_in(base)
    seconds = max(int(time.time()), int(os.path.basename(older[-1])) + 1 if older else 0)
    final = os.path.join(base, str(seconds))
    temporary = _temporary(final)
    try:
        yield temporary, tf.compat.as_bytes(final)
        for name, source in (assets_extra or {}).items():
            target = os.path.join(temporary, "assets.extra", name)
            tf.io.gfile.makedirs(os.path.dirname(target))
            tf.io.gfile.copy(source, target)
        tf.io.gfile.rename(temporary, final)
    finally:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)


def remove_export(path):
    """Removes an export. It is renamed first, so a server never loads one that is half deleted."""
    temporary = _temporary(path)
    tf.io.gfile.rename(path, temporary)
    remove(temporary)


def _temporary(path):
    """Returns the directory of an unfinished export. Servers ignore its name, which identifies the writing process."""
    base, seconds = os.path.split(path)
    return os.path.join(base, f"temp-{seconds}-{this_process()}")


def exports_in(base):
    """Returns the paths of the exports in the directory `base`, which are named by Unix seconds, oldest first."""
    if not tf.io.gfile.isdir(base):
        return []
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(base))
    return [os.path.join(base, name) for name in sorted(names) if len(name) == 10 and name.isdigit()]


def _as_dict(value, default_key):
    return value if isinstance(value, dict) else {default_key: value}


def _tensor_dict(tensors, label, *, default_key=None, key_types=(str,)):
    """Returns `tensors` as a dict, after checking keys and values; `label` names it in errors."""
    if tensors is None:
        raise ValueError(f"{label}s must be defined.")
    tensors = _as_dict(tensors, default_key or label)
    for key, tensor in tensors.items():
        if not isinstance(key, key_types):
            raise ValueError(f"{label} keys must be {' or '.join(f'{kind.__name__}s' for kind in key_types)}: {key!r}.")
        if not isinstance(tensor, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
            raise ValueError(f"{label} {key} must be a Tensor, SparseTensor, or RaggedTensor; got {tensor!r}.")
    return tensors


def _placeholders(tensors, batch_size):
    if isinstance(tensors, dict):
        return {key: _placeholders(tensor, batch_size) for key, tensor in tensors.items()}
    shape = tf.TensorShape([batch_size]).concatenate(tensors.shape[1:])
    name = tensors.op.name if tf.is_symbolic_tensor(tensors) else None  # an eager tensor has no name
    return v1.placeholder(tensors.dtype, shape, name=name)


def _is_float(value):
    return isinstance(value, tf.Tensor) and value.dtype.is_floating


def _only_string(receiver_tensors, label):
    tensors = list(receiver_tensors.values())
    if len(tensors) != 1 or tensors[0].dtype != tf.string:
        raise ValueError(
            f"{label} signatures take a single string tensor of serialized tf.train.Examples; got {receiver_tensors}. "
            "build_parsing_serving_input_receiver_fn makes such a receiver."
        )
    return tensors[0]


def _output_key(key, label):
    key = "/".join(key) if isinstance(key, tuple) else key
    if not isinstance(key, str):
        raise ValueError(f"{label} output key must be a string; got {key}.")
    return key


def _output_dict(outputs, default_key, label=None):
    label = label or default_key
    outputs = {_output_key(key, label): value for key, value in _as_dict(outputs, default_key).items()}
    for value in outputs.values():
        if not isinstance(value, tf.Tensor):
            raise ValueError(f"{label} output value must be a Tensor; got {value}.")
    return outputs


def _prefixed(outputs, prefix):
    return {key if key.startswith(prefix) else f"{prefix}/{key}": value for key, value in outputs.items()}


def _metric_dict(metrics):
    outputs = {}
    metrics = {_output_key(key, "metrics"): metric for key, metric in _as_dict(metrics, "metrics").items()}
    for key, metric in _prefixed(metrics, "metrics").items():
        value, update = metric if isinstance(metric, tuple) else (metric.result(), tf.group(metric.updates))
        if not isinstance(value, tf.Tensor):
            raise ValueError(f"{key} output value must be a Tensor; got {value}.")
        if not (tf.is_tensor(update) or isinstance(update, tf.Operation)):
            raise ValueError(f"{key} update_op must be a Tensor or Operation; got {update}.")
        if not isinstance(update, tf.Tensor):  # a SignatureDef holds tensors only
            with tf.control_dependencies([update]):
                update = tf.constant([], name="metric_op_wrapper")
        outputs |= {f"{key}/value": value, f"{key}/update_op": update}
    return outputs


def _tensor_infos(tensors):
    return {key: v1.saved_model.build_tensor_info(tensor) for key, tensor in tensors.items()}


def _check_fed(signature, receiver_tensors):
    """Raises ValueError if an output of `signature` depends on a placeholder that is not among the inputs."""
    fed = tf.nest.flatten(receiver_tensors, expand_composites=True)
    fed_names = {tensor.name for tensor in fed}
    outputs = [
        v1.saved_model.get_tensor_from_tensor_info(info, graph=fed[0].graph) for info in signature.outputs.values()
    ]
    # A function's graph also has placeholders for the tensors that it captures, such as variables.
    queue, seen = tf.nest.flatten(outputs, expand_composites=True), _captured(fed[0].graph)
    while queue:
        tensor = queue.pop()
        if tensor.name in fed_names or tensor.name in seen:
            continue
        seen.add(tensor.name)
        if tensor.op.type == "Placeholder":
            raise ValueError(
                f"the outputs {sorted(signature.outputs)} need the placeholder {tensor.op.name}, which is not among "
                f"the inputs {sorted(fed_names)}"
            )
        queue += tensor.op.inputs


def _captured(graph):
    return {tensor.name for tensor in getattr(graph, "internal_captures", ())}


def _log_report(included, excluded):
    constants = tf.saved_model
    methods = {
        constants.CLASSIFY_METHOD_NAME: "Classify",
        constants.REGRESS_METHOD_NAME: "Regress",
        constants.PREDICT_METHOD_NAME: "Predict",
        _SUPERVISED_METHODS["train"]: "Train",
        _SUPERVISED_METHODS["eval"]: "Eval",
    }
    for method, name in methods.items():
        keys = [key for key, signature in included.items() if signature.method_name == method]
        log.info("Signatures INCLUDED in export for %s: %s", name, keys or None)
    if excluded:
        log.info("Signatures EXCLUDED from export because they cannot be served via TensorFlow Serving APIs:")
        for key, reason in excluded.items():
            log.info("'%s' : %s", key, reason)
    if not included:
        log.warning("Export includes no signatures!")
    elif constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY not in included:
        log.warning("Export includes no default signature!")
