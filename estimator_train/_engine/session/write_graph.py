"""Lets TensorFlow 2.20 write graphs as text with protobuf 7."""

import inspect
import sys
import types
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import Message


def work_with_protobuf_7() -> None:
    """Makes `tf.io.write_graph` of TensorFlow 2.20 leave the argument out; does nothing if protobuf takes it."""
    # Its `tf.io.write_graph` passes `float_format=""` to `MessageToString`, which protobuf 7 no longer takes, so that
    # CheckpointSaverHook fails at the start of a training, when it writes graph.pbtxt. Earlier TensorFlow versions
    # require an older protobuf, and 2.21 no longer passes the argument.
    takes_it = "float_format" in inspect.signature(text_format.MessageToString).parameters
    if takes_it or not tf.__version__.startswith("2.20."):
        return
    # Only the name in write_graph's own module changes: protobuf stays as it is for everybody else.
    module: Any = sys.modules[tf.io.write_graph.__module__]
    module.text_format = types.SimpleNamespace(MessageToString=_message_to_string)


def _message_to_string(message: Message, float_format: str) -> str:
    # "" selects protobuf's default number format, the only one in protobuf 7.
    return text_format.MessageToString(message)
