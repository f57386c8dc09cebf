"""Functions that return the inputs of an export, for the Estimators of tf.contrib.learn; see `InputFnOps`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

v1 = tf.compat.v1


class InputFnOps(NamedTuple):
    """Features, labels or None, and what is fed; a tf.estimator exports a ServingInputReceiver instead."""

    features: Any
    labels: Any
    default_inputs: dict[str, tf.Tensor]


def build_parsing_serving_input_fn(
    feature_spec: dict[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Returns a function that parses serialized tf.train.Examples, fed as "examples", into the features of a spec."""

    def input_fn() -> InputFnOps:
        serialized = v1.placeholder(tf.string, [default_batch_size], "input_example_tensor")
        return InputFnOps(v1.parse_example(serialized, feature_spec), None, {"examples": serialized})

    return input_fn


def build_default_serving_input_fn(
    features: dict[str, tf.Tensor], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Returns a function whose features are fed, with the types and shapes of `features`, but for the batch."""

    def input_fn() -> InputFnOps:
        fed = {
            name: v1.placeholder(tensor.dtype, [default_batch_size, *tensor.shape[1:]], tensor.op.name)
            for name, tensor in features.items()
        }
        return InputFnOps(fed, None, fed)

    return input_fn
