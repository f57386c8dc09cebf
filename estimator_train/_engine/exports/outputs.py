"""The outputs of an exported model."""

import abc
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

v1 = tf.compat.v1

# The method names of signatures that TensorFlow Serving has no API for.
SUPERVISED_METHODS = {"train": "tensorflow/supervised/training", "eval": "tensorflow/supervised/eval"}


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

    Raises ValueError if a key has the wrong type or a value is not a tensor.
    """

    def __init__(self, outputs: tf.Tensor | dict[Any, tf.Tensor]) -> None:
        self.outputs = _output_dict(outputs, "output", "Prediction")

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> SignatureDef:
        return v1.saved_model.predict_signature_def(receiver_tensors, self.outputs)


class ClassificationOutput(ExportOutput):
    """Classes and their scores, served through the Classify API, which takes one string tensor of serialized Examples.

        >>> classes = tf.constant([["cat", "dog"]])
        >>> output = et.export.ClassificationOutput(scores=tf.constant([[0.9, 0.1]]), classes=classes)

    Args:
      scores: float tensor [batch, classes]; in the order of the class ids if there are no `classes`.
      classes: string tensor [batch, classes] of labels; best first if there are no `scores`.

    Raises ValueError if neither is given, or one is not a tensor of the right dtype.
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

    Raises ValueError if `value` is not a float tensor.
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
        self.loss = _supervised_dict(loss, "loss")
        self.predictions = _supervised_dict(predictions, "predictions")
        self.metrics = _metric_dict(metrics)

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> SignatureDef:
        if not receiver_tensors:
            raise ValueError(f"A {self.mode} signature needs inputs; receiver_tensors is empty.")
        outputs = {**(self.loss or {}), **(self.predictions or {}), **(self.metrics or {})}
        return v1.saved_model.build_signature_def(
            _tensor_infos(receiver_tensors), _tensor_infos(outputs), SUPERVISED_METHODS[self.mode]
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

    Raises ValueError if a key is neither a str nor a tuple of str, or a value is not a tensor.
    """

    mode = "eval"


def _is_float(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and value.dtype.is_floating


def _only_string(receiver_tensors: Mapping[str, tf.Tensor], label: str) -> tf.Tensor:
    tensors = list(receiver_tensors.values())
    if len(tensors) != 1 or tensors[0].dtype != tf.string:
        raise ValueError(
            f"{label} signatures take a single string tensor of serialized tf.train.Examples; got {receiver_tensors}. "
            "build_parsing_serving_input_receiver_fn makes such a receiver."
        )
    return tensors[0]


def _output_key(key: Any, label: str) -> str:
    if isinstance(key, tuple):
        key = "/".join(key)
    if not isinstance(key, str):
        raise ValueError(f"{label} output key must be a string; got {key}.")
    return key


def _output_dict(outputs: tf.Tensor | dict[Any, tf.Tensor], default_key: str, label: str) -> dict[str, tf.Tensor]:
    outputs = {_output_key(key, label): value for key, value in as_dict(outputs, default_key).items()}
    for value in outputs.values():
        if not isinstance(value, tf.Tensor):
            raise ValueError(f"{label} output value must be a Tensor; got {value}.")
    return outputs


def _prefixed(outputs: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {key if key.startswith(prefix) else f"{prefix}/{key}": value for key, value in outputs.items()}


def _supervised_dict(outputs: tf.Tensor | dict[Any, tf.Tensor] | None, kind: str) -> dict[str, tf.Tensor] | None:
    if outputs is None:
        return None
    return _prefixed(_output_dict(outputs, kind, kind), kind)


def _metric_dict(metrics: Any) -> dict[str, tf.Tensor] | None:
    if metrics is None:
        return None
    outputs = {}
    metrics = {_output_key(key, "metrics"): metric for key, metric in as_dict(metrics, "metrics").items()}
    for key, metric in _prefixed(metrics, "metrics").items():
        if not isinstance(metric, tuple):  # one of Keras
            metric = metric.result(), tf.group(metric.updates)
        value, update = metric
        if not isinstance(value, tf.Tensor):
            raise ValueError(f"{key} output value must be a Tensor; got {value}.")
        if not (tf.is_tensor(update) or isinstance(update, tf.Operation)):
            raise ValueError(f"{key} update_op must be a Tensor or Operation; got {update}.")
        if not isinstance(update, tf.Tensor):  # a SignatureDef holds tensors only
            with tf.control_dependencies([update]):
                update = tf.constant([], name="metric_op_wrapper")
        outputs |= {f"{key}/value": value, f"{key}/update_op": update}
    return outputs


def _tensor_infos(tensors: Mapping[str, tf.Tensor]) -> dict[str, TensorInfo]:
    return {key: v1.saved_model.build_tensor_info(tensor) for key, tensor in tensors.items()}


def as_dict(value: Any, default_key: str) -> dict[Any, Any]:
    """Returns `value` if it is a dict, or else a dict of `default_key` to it."""
    return value if isinstance(value, dict) else {default_key: value}
