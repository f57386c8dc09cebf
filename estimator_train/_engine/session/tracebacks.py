"""Shortens the tracebacks of errors in a model's code, as Keras' fit does."""

import os
import types

import tensorflow as tf

_OWN = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_PACKAGES = os.path.dirname(os.path.dirname(tf.__file__))
_LIBRARIES = (*(os.path.join(_PACKAGES, name, "") for name in ("tensorflow", "keras", "tf_keras")), _OWN)


def shortened(error: Exception) -> Exception:
    """Returns `error` without the frames of TensorFlow, Keras and this package, except the last one."""
    if tf.debugging.is_traceback_filtering_enabled() and error.__traceback__ is not None:
        error.__traceback__ = _users_frames(error.__traceback__)
    return error


def _users_frames(traceback: types.TracebackType) -> types.TracebackType:
    if traceback.tb_next is None:
        return traceback
    rest = _users_frames(traceback.tb_next)
    if traceback.tb_frame.f_code.co_filename.startswith(_LIBRARIES):
        return rest
    return types.TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
