"""Defines the inputs and outputs of a SavedModel: input receivers and export outputs."""

import collections
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_train._engine.exports.outputs import as_dict
from estimator_train._engine.types import Nest

v1 = tf.compat.v1

_Served = collections.namedtuple("_Served", ["features", "receiver_tensors", "receiver_tensors_alternatives"])


class ServingInputReceiver(_Served):
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

    Raises ValueError if a value is not a tensor, a key has the wrong type, or the alternatives are not a dict.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: tf.Tensor | dict[Any, Any],
        receiver_tensors: tf.Tensor | dict[str, Any],
        receiver_tensors_alternatives: dict[str, Any] | None = None,
    ) -> "ServingInputReceiver":
        if not isinstance(receiver_tensors_alternatives, (dict, type(None))):
            raise ValueError(f"receiver_tensors_alternatives must be a dict: {receiver_tensors_alternatives}.")
        features = _tensor_dict(features, "feature", key_types=(str, int))
        receiver_tensors = _tensor_dict(receiver_tensors, "receiver_tensor", default_key="input")
        alternatives = receiver_tensors_alternatives and {
            name: _tensor_dict(tensors, "receiver_tensors_alternative", default_key="input")
            for name, tensors in receiver_tensors_alternatives.items()
        }
        return super().__new__(cls, features, receiver_tensors, alternatives)


class TensorServingInputReceiver(_Served):
    """Like `ServingInputReceiver`, but for a model whose features are a single tensor, not a dict.

        >>> x = tf.ones([1, 2])
        >>> receiver = et.export.TensorServingInputReceiver(x, receiver_tensors={"x": x})

    Raises ValueError as for `ServingInputReceiver`, or if the features are a dict.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: tf.Tensor,
        receiver_tensors: tf.Tensor | dict[str, Any],
        receiver_tensors_alternatives: dict[str, Any] | None = None,
    ) -> "TensorServingInputReceiver":
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

    Raises ValueError if a value is not a tensor or a key has the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: tf.Tensor | dict[Any, Any],
        labels: tf.Tensor | dict[Any, Any],
        receiver_tensors: tf.Tensor | dict[str, Any],
    ) -> "SupervisedInputReceiver":
        _tensor_dict(features, "feature", key_types=(str, int))
        _tensor_dict(labels, "label", key_types=(str, int))
        receiver_tensors = _tensor_dict(receiver_tensors, "receiver_tensor", default_key="input")
        return super().__new__(cls, features, labels, receiver_tensors)


InputReceiver = ServingInputReceiver | TensorServingInputReceiver | SupervisedInputReceiver
ReceiverFn = Callable[[], InputReceiver]


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

    def serving_input_receiver_fn() -> ServingInputReceiver:
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

    def serving_input_receiver_fn() -> ServingInputReceiver:
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

    Raises ValueError if a feature and a label have the same name.
    """
    shared = set(as_dict(features, "input")) & set(as_dict(labels, "label"))
    if shared:
        raise ValueError(f"Features and labels must have distinct keys. Found overlapping keys: {shared}")

    def supervised_input_receiver_fn() -> SupervisedInputReceiver:
        fed_features = _placeholders(features, default_batch_size)
        fed_labels = _placeholders(labels, default_batch_size)
        fed = as_dict(fed_features, "input") | as_dict(fed_labels, "label")
        return SupervisedInputReceiver(fed_features, fed_labels, fed)

    return supervised_input_receiver_fn


def _tensor_dict(
    tensors: Nest, label: str, *, default_key: str | None = None, key_types: tuple[type, ...] = (str,)
) -> dict[Any, Any]:
    """Returns `tensors` as a dict, after checking keys and values; `label` names it in errors."""
    if tensors is None:
        raise ValueError(f"{label}s must be defined.")
    tensors = as_dict(tensors, default_key or label)
    for key, tensor in tensors.items():
        if not isinstance(key, key_types):
            raise ValueError(f"{label} keys must be {' or '.join(f'{kind.__name__}s' for kind in key_types)}: {key!r}.")
        if not isinstance(tensor, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
            raise ValueError(f"{label} {key} must be a Tensor, SparseTensor, or RaggedTensor; got {tensor!r}.")
    return tensors


def _placeholders(tensors: tf.Tensor | dict[str, tf.Tensor], batch_size: int | None) -> Nest:
    if isinstance(tensors, dict):
        return {key: _placeholders(tensor, batch_size) for key, tensor in tensors.items()}
    shape = tf.TensorShape([batch_size]).concatenate(tensors.shape[1:])
    name = tensors.op.name if tf.is_symbolic_tensor(tensors) else None  # an eager tensor has no name
    return v1.placeholder(tensors.dtype, shape, name=name)
